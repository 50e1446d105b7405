"""What a run's report says, against what is true.

    >>> told = {"verdict": {"by": "app.pool"}, "limit": {"id": "app.pool", "at_once": 4.1, "rate_per_s": 199}}
    >>> truth = {"accepted": ["app.pool"], "at_once": 4, "rate": 199}
    >>> judge(told, truth).outcome
    'right'
    >>> judge(told, truth | {"at_once": 8}).outcome
    'half'
    >>> judge({"verdict": {"by": None}}, truth).outcome
    'unknown'
    >>> judge({"verdict": {"by": None}, "limit": {"place": "application"}}, truth | {"place": ["app"]}).outcome
    'half'
    >>> judge({"verdict": {"by": "host.cpu"}}, truth).outcome
    'wrong'
    >>> judge({"verdict": {"by": "host.cpu"}}, {"accepted": []}).outcome
    'right'
    >>> judge({"verdict": {"by": "path.rate"}}, {"accepted": []}).outcome
    'wrong'
"""

import math
from typing import NamedTuple

# What the report's sum may differ by where the case says nothing else. Chosen: a rate is as exact as the service's
# timers; a number at a time is told from its neighbours up to four.
RATE_TOLERANCE = 0.15
AT_ONCE_TOLERANCE = 0.25

# What may be named on a healthy service: more load, more hardware, or that nothing was found.
WELL = {"none", "unexplained", "app.wait", "host.cpu", "target.cpu", "vm.schedulers", "engine.cpu"}
WELL_LAYERS = ("load.",)
PATH = "path."


class Judged(NamedTuple):
    """A try's outcome: right, half (the place, not the cause or not the sum), unknown, wrong."""

    outcome: str
    named: str
    place: str
    says: str


def named(document):
    """The id that holds the rate; `none` if there is none."""
    limit = document.get("limit") or {}
    return (document.get("verdict") or {}).get("by") or limit.get("id") or "none"


def judge(document, truth, has_path=False):
    """See the module."""
    by, place = named(document), str((document.get("limit") or {}).get("place") or "")
    if not truth["accepted"]:
        is_well = by in WELL or by.startswith(WELL_LAYERS) or by in truth.get("also", [])
        is_well |= has_path and by.startswith(PATH)
        return Judged("right" if is_well else "wrong", by, place, "")
    if by in truth["accepted"]:
        off = _sum_off(document.get("limit") or {}, truth)
        return Judged("half" if off else "right", by, place, off)
    is_there = any(word in place.lower() for word in truth.get("place", []))
    if by in truth.get("half", []) or (is_there and by in ("none", "unexplained")):
        return Judged("half", by, place, "")
    return Judged("unknown" if by in ("none", "unexplained") else "wrong", by, place, "")


def _sum_off(limit, truth):
    """Which figure of the report is not the true one. A report without a figure says nothing wrong."""
    pairs = (
        ("at_once", limit.get("at_once"), truth.get("at_once"), AT_ONCE_TOLERANCE),
        ("rate", limit.get("rate_per_s"), truth.get("rate"), truth.get("tolerance", RATE_TOLERANCE)),
    )
    off = [
        f"{name} {told:g}, not {true:g}"
        for name, told, true, tolerance in pairs
        if isinstance(told, int | float) and true and abs(told - true) > tolerance * true
    ]
    return "; ".join(off)


class Predicted(NamedTuple):
    """What the first advice promised, against what its twin gave."""

    error: float
    is_inside: bool
    width: float
    # Only its high end is told.
    is_bound: bool = False


def predicted(document, gained_per_s):
    """None: nothing was promised, or the twin gave nothing. What is told as a bound holds where it is not exceeded.

    >>> predicted({"advice": [{"predicted_per_s": [50, 100, 200]}]}, 100)
    Predicted(error=0.0, is_inside=True, width=4.0, is_bound=False)
    >>> predicted({"advice": [{"predicted_per_s": [5, 100, 200], "bound": True}]}, 300).is_inside
    False
    """
    first = (document.get("advice") or [{}])[0]
    low, mid, high = interval(first.get("predicted_per_s"))
    if not (low and mid and high and gained_per_s):
        return None
    is_bound = first.get("bound", False)
    is_inside = (is_bound or low <= gained_per_s) and gained_per_s <= high
    return Predicted(abs(math.log(mid / gained_per_s)), is_inside, high / low, is_bound)


def followed(document, by_hand):
    """What the first advice turns, as keys of a plan: its own knob, or what the plan has for advice without one. Empty: nothing here does it.

    >>> followed({"advice": [{"knob": "path.rate", "value": "2Mbit"}]}, {}), followed({"advice": [{"knob": "by-hand"}]}, {"workers": "2"})
    ({'path.rate': '2Mbit'}, {'workers': '2'})
    >>> followed({"advice": [{"knob": "engine.host", "value": "another machine"}]}, {}), followed({}, {})
    ({}, {})
    """
    first = (document.get("advice") or [{}])[0]
    if not first.get("knob") or first["knob"] == "engine.host":
        return {}
    return by_hand if first["knob"] == "by-hand" else {first["knob"]: str(first["value"])}


def interval(told):
    """Low, mid and high, of an object or a list; Nones of what is neither.

    >>> interval({"low": 1, "mid": 2, "high": 3}), interval([1, 2, 3]), interval(None)
    ((1, 2, 3), (1, 2, 3), (None, None, None))
    """
    if isinstance(told, dict):
        return told.get("low"), told.get("mid"), told.get("high")
    if isinstance(told, list) and len(told) == 3:
        return tuple(told)
    return None, None, None


def half_load(document):
    """Of the experiment: whether X(c/2) was inside the model's interval, that one's half width as a share, and whether
    X(c/2) is inside as far as its own 95 % interval tells. None without.

    >>> half_load({"experiment": {"half": {"measured_per_s": 100, "predicted_per_s": {"low": 90, "mid": 100, "high": 110}}}})
    (True, 0.1, True)
    >>> half_load({"experiment": {"half": {"measured_per_s": 88, "interval": [84, 92], "predicted_per_s": [90, 100, 110]}}})
    (False, 0.1, True)
    """
    half = (document.get("experiment") or {}).get("half") or {}
    low, mid, high = interval(half.get("predicted_per_s"))
    measured = half.get("measured_per_s")
    if not (isinstance(measured, int | float) and low is not None and high is not None):
        return None
    mid = mid or (low + high) / 2
    least, most = half.get("interval") or (measured, measured)
    return low <= measured <= high, (high - low) / 2 / mid if mid else math.inf, least <= high and low <= most


def unplaced(document):
    """The share of the account that is at no station. None without an account."""
    share = (document.get("account") or {}).get("unplaced_share")
    return share if isinstance(share, int | float) else None


def agreements(document):
    """Of each figure of the account that was measured in another way too, the account's by the other.

    >>> agreements({"account": {"agreement": [{"by": "a", "seconds": 3, "measured_seconds": 4}, {"by": "b", "seconds": 1, "measured_seconds": 0}]}})
    [('a', 0.75), ('b', inf)]
    >>> agreements({})
    []
    """
    found = (document.get("account") or {}).get("agreement") or []
    return [(of["by"], of["seconds"] / of["measured_seconds"] if of["measured_seconds"] else math.inf) for of in found]


def attained_per_s(document):
    """Exchanges a second of our own load; none of what was only watched."""
    return (document.get("load") or {}).get("throughput_per_s")


if __name__ == "__main__":
    import doctest
    import sys

    sys.exit(bool(doctest.testmod()[0]))
