"""The tables of docs/truth.md, and what is accepted."""

import statistics
from collections import Counter
from typing import NamedTuple

from foreign import ROOT

# Source: the issue that asked for this bench. Shares of all undisturbed tries, by suite.
RIGHT = {"planted": 0.95, "foreign": 0.90, "healthy": 1.0}
UNKNOWN_AT_MOST = 0.10
WRONG_AT_MOST = 0.10
# |ln(predicted / measured)| of lifted twins, the share of them inside the interval, and its width.
ERROR_AT_MOST, INSIDE_AT_LEAST, WIDTH_AT_MOST = 0.15, 0.80, 3.0
# X(c/2) inside the model's interval, and its half width.
HALF_INSIDE_AT_LEAST, HALF_WIDTH_AT_MOST = 0.90, 0.15
UNPLACED_AT_MOST = 0.05
AGREE_WITHIN = 0.10


def line(row):
    """A case, as it is printed."""
    if row.is_inconclusive:
        return f"{row.suite:<8} {row.name:<28} {row.truth:<36} inconclusive: {row.disturbed} of {row.disturbed} tries disturbed"
    named = ", ".join(f"{by} {count}" for by, count in Counter(one.named for one in row.tries).most_common())
    lifted = f"; lifted {_rights(row.twins)} of {len(row.twins)}: {_names(row.twins)}" if row.suite != "healthy" else ""
    off = "".join(sorted({f" ({one.says})" for one in row.tries if one.says}))
    counts = f"{row.count('right')} of {len(row.tries)}"
    return f"{row.suite:<8} {row.name:<28} {row.truth:<36} {counts}: {named}{off}{lifted}"


def _rights(tries):
    return sum(1 for one in tries if one.outcome == "right")


def _names(tries):
    return ", ".join(by for by, _ in Counter(one.named for one in tries).most_common()) or "inconclusive"


def by_suite(rows):
    """suite -> outcome -> tries, with what else is counted of them."""
    found = {}
    for row in rows:
        counts = found.setdefault(row.suite, Counter())
        counts["cases"] += 1
        counts["tries"] += len(row.tries)
        counts["disturbed"] += row.disturbed
        counts["inconclusive"] += row.is_inconclusive
        counts["still named"] += sum(1 for one in row.twins if one.outcome == "wrong")
        counts["twins"] += len(row.twins)
        for one in row.tries:
            counts[one.outcome] += 1
    return found


def is_bound(row):
    """Whether most of its tries told an upper bound and no more."""
    return sum(one.is_bound for one in row.predicted) * 2 > len(row.predicted)


def _holds(row):
    """Whether what was told holds in most of its tries."""
    return sum(one.is_inside for one in row.predicted) * 2 > len(row.predicted)


def gains(rows):
    """One vote a fault: the median of its tries' errors and widths, and whether most of them were inside. Without bounds."""
    with_gain = [row for row in rows if row.predicted and not is_bound(row)]
    inside = [_holds(row) for row in with_gain]
    with_gain = [row.predicted for row in with_gain]
    errors = [statistics.median(one.error for one in found) for found in with_gain]
    widths = [statistics.median(one.width for one in found) for found in with_gain]
    return errors, inside, widths


class Beside(NamedTuple):
    """What runs said beside their verdicts: (X(c/2) inside, half width, inside within its error), the share at no station, (measure, ratio)."""

    half_loads: list
    unplaced: list
    agreements: list


def totals(rows, beside):
    """By suite, and what the numbers beside the names are worth."""
    head = "| suite | cases | tries | right | by half | don't know | wrong | lifted, still named | disturbed | inconclusive |"
    lines = [head, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for suite, counts in by_suite(rows).items():
        shares = [_share(counts[outcome], counts["tries"]) for outcome in ("right", "half", "unknown", "wrong")]
        twins = f"{counts['still named']} of {counts['twins']}" if counts["twins"] else ""
        cells = [suite, counts["cases"], counts["tries"], *shares, twins, counts["disturbed"], counts["inconclusive"]]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    lines.append("")
    bounds = [row for row in rows if row.predicted and is_bound(row)]
    errors, inside, widths = gains(rows)
    if errors:
        lines.append(
            f"Gain, predicted and measured, {len(errors)} faults: \\|ln(predicted / measured)\\| {statistics.median(errors):.2f} "
            f"in the median; {sum(inside)} of {len(inside)} inside the interval; it is {statistics.median(widths):.1f} times "
            "as high as low in the median."
        )
    else:
        lines.append("Gain, predicted and measured: no prediction had a measured twin.")
    if bounds:
        held = sum(_holds(row) for row in bounds)
        lines.append(f"Gain at most, of {len(bounds)} more, whose lifting no model knows: not exceeded in {held}.")
    if beside.half_loads:
        inside, widths, within = zip(*beside.half_loads)
        lines.append(
            f"X(c/2) inside the model's interval: {sum(inside)} of {len(inside)} runs, {sum(within)} as far as its own "
            f"95% interval tells; half width {statistics.median(widths):.0%} in the median."
        )
    else:
        lines.append("X(c/2): no run had the experiment.")
    if beside.unplaced:
        lines.append(f"Time at no station: {statistics.median(beside.unplaced):.1%} in the median of {len(beside.unplaced)} runs.")
    else:
        lines.append("Time at no station: no run had an account.")
    for by in sorted({by for by, _ in beside.agreements}):
        of = [ratio for name, ratio in beside.agreements if name == by]
        near = sum(abs(ratio - 1) <= AGREE_WITHIN for ratio in of)
        lines.append(
            f"The account beside `{by}`: within {AGREE_WITHIN:.0%} in {near} of {len(of)} runs; x{statistics.median(of):.2f} in the median."
        )
    return "\n".join(lines)


def page(rows, beside, commits, options):
    """docs/truth.md."""
    lines = [
        "# Truth",
        "",
        "How often linerate is right, and by how much its numbers are off. Written by `bench/truth --write docs/truth.md`",
        f"at {_commits(commits)}, {options.tries} undisturbed {'try' if options.tries == 1 else 'tries'} a case. A try is disturbed if",
        "others than the case had 15 % of the CPUs or more: it is counted apart and repeated. *By half*: the place and not the cause, or the cause and not its",
        f"sum. What each fault is, and how its truth was measured: {_folders(options.cases)}. Earlier tries:",
        "[truth-earlier.md](truth-earlier.md).",
        "",
        totals(rows, beside),
        "",
    ]
    for suite in by_suite(rows):
        of_suite = [row for row in rows if row.suite == suite]
        lines += [f"## {suite.capitalize()}", ""]
        if suite == "healthy":
            lines += ["| case | no false alarm | named |", "|---|---:|---|"]
            lines += [f"| {row.name} | {_of(row.count('right'), row)} | {_names(row.tries)} |" for row in of_suite]
        else:
            head = "| case | truth | right | by half | don't know | wrong | named | lifted | predicted |"
            lines += [head, "|---|---|---:|---:|---:|---:|---|---|---|"]
            lines += [_cells(row) for row in of_suite]
        lines.append("")
    return "\n".join(lines)


def _commits(commits):
    """The one, or the first and the last of those at which the tries were made."""
    ends = [commits[0], commits[-1]] if len(commits) > 1 else commits
    return f"commit{'s' if len(commits) > 1 else ''} " + " to ".join(f"`{commit}`" for commit in ends)


def _folders(cases):
    return ", ".join(f"`{path.resolve().relative_to(ROOT)}/`" if path.resolve().is_relative_to(ROOT) else f"`{path.name}/`" for path in cases)


def _cells(row):
    counts = [row.count(outcome) for outcome in ("half", "unknown", "wrong")]
    gain = ""
    if row.predicted:
        if is_bound(row):
            gain = "at most: held" if _holds(row) else "at most: exceeded"
        else:
            (error,), (is_inside,), (width,) = gains([row])
            gain = f"{error:.2f}, {'inside' if is_inside else 'outside'} of x{width:.1f}"
    lifted = f"{_rights(row.twins)} of {len(row.twins)}: {_names(row.twins)}"
    cells = [row.name, row.truth, _of(row.count("right"), row), *counts, _names(row.tries), lifted, gain]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _of(count, row):
    return f"{count} of {len(row.tries)}" if row.tries else f"inconclusive ({row.disturbed} disturbed)"


def _share(count, of):
    return f"{count} ({count / of:.0%})" if of else "0"


def breached(rows, beside, tries):
    """What does not hold, in words; nothing if all does."""
    says = []
    for suite, counts in by_suite(rows).items():
        of = counts["tries"]
        if counts["inconclusive"]:
            says.append(f"{suite}: {counts['inconclusive']} of {counts['cases']} cases could not be run undisturbed")
        if of and counts["right"] < RIGHT[suite] * of:
            says.append(f"{suite}: {counts['right'] / of:.0%} right, of {RIGHT[suite]:.0%}")
        if of and suite == "foreign" and counts["unknown"] > UNKNOWN_AT_MOST * of:
            says.append(f"{suite}: {counts['unknown'] / of:.0%} unknown, of {UNKNOWN_AT_MOST:.0%} at most")
    for row in rows:
        if row.suite == "foreign" and row.count("wrong") > WRONG_AT_MOST * len(row.tries):
            says.append(f"{row.name}: wrong in {row.count('wrong')} of {len(row.tries)}: {_names(row.tries)}")
        still = len(row.twins) - _rights(row.twins)
        if still > WRONG_AT_MOST * len(row.twins):
            says.append(f"{row.name}: lifted, {still} of {len(row.twins)} wrong: {_names(row.twins)}")
    errors, inside, widths = gains(rows)
    if errors and statistics.median(errors) > ERROR_AT_MOST:
        says.append(f"gains: off by {statistics.median(errors):.2f} in the median, of {ERROR_AT_MOST}")
    if inside and sum(inside) < INSIDE_AT_LEAST * len(inside):
        says.append(f"gains: {sum(inside)} of {len(inside)} inside their intervals")
    if widths and statistics.median(widths) > WIDTH_AT_MOST:
        says.append(f"gains: intervals x{statistics.median(widths):.1f} wide in the median, of x{WIDTH_AT_MOST}")
    if beside.half_loads:
        if sum(is_inside for is_inside, *_ in beside.half_loads) < HALF_INSIDE_AT_LEAST * len(beside.half_loads):
            says.append("X(c/2): too often outside of the model's interval")
        if statistics.median(width for _, width, _ in beside.half_loads) > HALF_WIDTH_AT_MOST:
            says.append("X(c/2): the model's interval is too wide")
    if beside.unplaced and statistics.median(beside.unplaced) > UNPLACED_AT_MOST:
        says.append(f"account: {statistics.median(beside.unplaced):.1%} at no station, of {UNPLACED_AT_MOST:.0%}")
    far = sum(abs(ratio - 1) > AGREE_WITHIN for _, ratio in beside.agreements)
    if far * 10 > len(beside.agreements):
        says.append(f"account: {far} of {len(beside.agreements)} figures are not within {AGREE_WITHIN:.0%} of the same measured otherwise")
    return says
