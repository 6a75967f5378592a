"""A model in one phase on a device: how long, how well it uses the machine, what bounds it, whether it fits."""

from trnprof.models.fitting import search
from trnprof.models.record import ModelRun, OperatorUse, TrainingUse
from trnprof.models.running import run_model

__all__ = ["ModelRun", "OperatorUse", "TrainingUse", "run_model", "search"]
