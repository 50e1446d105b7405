"""How often `linerate compare` calls runs of one build different, and how often it finds a planted change.

    python3 bench/comparison/table.py FOLDER SIZE [COMPARISONS]

FOLDER is what bench/comparison/runs made. Each comparison draws SIZE runs a side without putting back; runs stand in
many comparisons, so that neighbouring shares are not independent. Prints a row of docs/comparison.md.
"""

import json
import os
import pathlib
import random
import subprocess
import sys

folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
comparisons = int(sys.argv[3]) if len(sys.argv) > 3 else 200
linerate = os.environ.get("LINERATE", "linerate")
drawn = random.Random(1)


def runs(side):
    return sorted(str(file) for file in (folder / side).glob("*.json"))


def compare(before, after):
    words = [linerate, "compare", "--json", "--tolerance", "0%", "-q", *before, "--", *after]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode in (0, 5), ended.stderr
    figures = json.loads(ended.stdout)["figures"][:3]
    real = [f["interval"][0] > 1 or (f["interval"][1] or 2) < 1 for f in figures]
    return any(real), ended.returncode == 5, figures[0]["could_see"]


cells, seen = [], []
for after in ["a", "b5", "b10"]:
    different = worse = 0
    for _ in range(comparisons):
        if after == "a":
            both = drawn.sample(runs("a"), 2 * size)
            before, other = both[:size], both[size:]
        else:
            before, other = drawn.sample(runs("a"), size), drawn.sample(runs(after), size)
        is_different, is_worse, could_see = compare(before, other)
        different += is_different
        worse += is_worse
        seen.append(could_see)
    cells += [f"{different / comparisons:.1%}", f"{worse / comparisons:.1%}"]
seen.sort()
aa, aa_worse, _, found5, _, found10 = cells
print(f"| {size} | {aa} | {aa_worse} | {seen[len(seen) // 2]:.0%} | {found5} | {found10} |")
