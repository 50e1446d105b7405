"""Ratios of paired measurements: their median, and an interval that assumes nothing of their shape.

The pairs are measured in alternation (A B B A ...), so that what drifts, drifts in both. The
interval of the median is a pair of order statistics: n ratios lie above or below the true median as
coins fall.
Source: Conover, Practical Nonparametric Statistics, "Confidence interval for a quantile".
"""

from math import comb
from statistics import median
from typing import NamedTuple


class Ratio(NamedTuple):
    """The median of ratios with its interval and how sure that is."""

    middle: float
    low: float
    high: float
    sure: float

    def __str__(self):
        return f"{self.middle:.3f} ({self.low:.3f} to {self.high:.3f})"

    def against(self, target):
        """Whether a target is met, plainly.

        >>> Ratio(1.2, 1.16, 1.3, 0.98).against(1.15)
        'met'
        >>> Ratio(1.1, 1.05, 1.14, 0.98).against(1.15)
        'not met'
        >>> Ratio(1.16, 1.1, 1.2, 0.98).against(1.15)
        'not met for certain: the interval holds the target'
        >>> Ratio(1.3, 1.2, 1.4, 0.75).against(1.15)
        'not judged: too few pairs'
        """
        if self.sure < 0.95:
            return "not judged: too few pairs"
        if self.low >= target:
            return "met"
        if self.high < target:
            return "not met"
        return "not met for certain: the interval holds the target"


def ratio(pairs):
    """The ratio first by second over pairs of figures.

    >>> print(ratio([(2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1)]))
    5.000 (2.000 to 8.000)
    """
    ratios = sorted(first / second for first, second in pairs)
    place, sure = narrowest(len(ratios))
    return Ratio(median(ratios), ratios[place], ratios[-1 - place], sure)


def narrowest(count, wanted=0.95):
    """How far in from both ends the interval may begin, and how sure it is then.

    Seven pairs: both ends, 1 - 2/128. Nine: the second from each end, 1 - 2 * 10/512.

    >>> narrowest(7)
    (0, 0.984375)
    >>> narrowest(9)
    (1, 0.9609375)
    >>> narrowest(3)
    (0, 0.75)
    """
    place, outside = 0, 2 / 2**count
    for further in range(1, (count + 1) // 2):
        more = outside + 2 * comb(count, further) / 2**count
        if 1 - more < wanted:
            break
        place, outside = further, more
    return place, 1 - outside


if __name__ == "__main__":
    import doctest
    import sys

    sys.exit(doctest.testmod().failed)
