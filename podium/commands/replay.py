"""`podium replay`: decide a recording again, under its own configuration or another, and show the differences."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from podium.configuration import add_config_arguments, read_configuration
from podium.output import print_json
from podium.progress import Progress
from podium.what_if.replay import Redecided, Replay, Summary, segments_of

#: differences shown
MOST = 40


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "replay",
        help="decide a recording again, and show the differences",
        description="Decide what podium run --record DIR recorded again, each decision on the state it was made on, "
        "and show what would be decided differently. Without --config under the recorded configuration.",
    )
    parser.add_argument("directory", metavar="DIR", help="the directory of --record")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="decides ties (default: 0)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="format (default: table)")
    add_config_arguments(parser)
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the differences; 2 for a directory without a recording."""
    effective = read_configuration(args) if args.config or args.feature_gates else None
    replay = Replay(effective, args.seed)
    with Progress("decisions") as progress:
        decisions = list(progress.each(replay.run(segments_of(args.directory))))
    changed = [each for each in decisions if each.outcome == "different"]
    if args.output == "json":
        print_json(document(replay.summary, changed))
    else:
        _print(replay.summary, changed)
    return 0


def document(summary: Summary, changed: Sequence[Redecided]) -> dict[str, Any]:
    """As JSON: the counts, and each decision that would be another now."""
    return {
        "segments": summary.segments,
        "decisions": summary.decisions,
        "same": summary.outcomes["same"],
        "ties": summary.outcomes["tie"],
        "different": len(changed),
        "skipped": summary.outcomes["skipped"],
        "unanswered": summary.unanswered,
        "differences": [asdict(each) for each in changed],
    }


def _print(summary: Summary, changed: Sequence[Redecided]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from podium.explain.amounts import plural

    console = Console(highlight=False)
    counts = Counter(summary.outcomes)
    console.print(
        f"[bold]{plural(summary.decisions, 'decision')}[/] in {plural(summary.segments, 'segment')}: "
        f"{counts['same']:,} the same, {counts['tie']:,} with as good a node, [bold]{len(changed):,} different[/]"
    )
    if counts["skipped"]:
        print(f"{counts['skipped']:,} skipped: their pod or their profile is not there any more", file=sys.stderr)
    if summary.unanswered:
        questions = plural(summary.unanswered, "question")
        print(f"{questions} to extenders that nobody had asked then: taken as no objection", file=sys.stderr)
    if not changed:
        return
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("POD", "THEN", "NOW"):
        table.add_column(column, no_wrap=True)
    table.add_column("", overflow="fold")
    for each in changed[:MOST]:
        then, now = _place(each.before, each.nominated_before), _place(each.after, each.nominated_after)
        table.add_row(each.pod, then, now, Text(_why(each)))
    if len(changed) > MOST:
        table.add_row(f"… and {len(changed) - MOST:,} more", "", "", "")
    console.print(table)


def _place(node: str, nominated: str) -> str:
    return node or (f"(nominated) {nominated}" if nominated else "–")


def _why(each: Redecided) -> str:
    if each.victims_before != each.victims_after and (each.victims_after or each.victims_before):
        return f"victims {', '.join(each.victims_before) or 'none'} → {', '.join(each.victims_after) or 'none'}"
    if each.after and each.score_before is not None:
        return f"score {each.score_before} → {each.score_after}"
    if each.after and each.before:
        return f"{each.before} would not fit"
    return each.message_after if not each.after else each.message_before
