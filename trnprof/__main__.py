import sys

from trnprof.cli import main

sys.exit(main())
