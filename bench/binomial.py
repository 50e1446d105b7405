"""How many of n packets a loss of p may take, when it takes what it should."""

from math import exp, lgamma, log


def interval(count, share, sure=0.999):
    """The least and the most that are plausible; beyond them lies 1 - `sure`, half on each side.

    >>> interval(1000, 0)
    (0, 0)
    >>> interval(10, 0.5, 0.9)
    (2, 8)
    >>> low, high = interval(60000, 0.01)
    >>> low < 600 < high and high - low < 200
    True
    """
    if share == 0:
        return 0, 0
    outside = (1 - sure) / 2
    low = high = None
    below = 0.0
    for lost in range(count + 1):
        chance = exp(
            lgamma(count + 1) - lgamma(lost + 1) - lgamma(count - lost + 1)
            + lost * log(share) + (count - lost) * log(1 - share)
        )
        below += chance
        if low is None and below > outside:
            low = lost
        if below >= 1 - outside:
            high = lost
            break
    return low or 0, count if high is None else high


if __name__ == "__main__":
    import doctest
    import sys

    sys.exit(doctest.testmod().failed)
