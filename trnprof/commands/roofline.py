from __future__ import annotations

from argparse import ArgumentParser, Namespace


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the chart: .html .svg .png .pdf .csv .json")
    parser.add_argument("--device", metavar="D", help="draw the roofs of another device")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Place a trace and its regions under the roofs of its device."""
