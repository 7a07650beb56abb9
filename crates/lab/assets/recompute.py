#!/usr/bin/env python3
"""Computes claims of a `sealane lab site` again, from the samples in its raw data.

    python3 recompute.py SITE [COUNT] [SEED]

COUNT claims (3 by default) are drawn at random from claims.json. For each, the figure is computed from the samples, the
interval by resampling with this script's own random numbers, and the verdict from both. A figure must be the site's. A
verdict may differ from the site's only if an interval with slightly longer or shorter tails, as another resampling may
have them, has the site's verdict. The exit status is 1 if one differs. Nothing but Python's standard library is needed.
"""

import itertools
import json
import math
import os
import random
import statistics
import sys

CONFIDENCE, SAMPLES_FOR_CONFIDENCE, RESAMPLES = 0.9, 5, 2000
TAIL = (1 - CONFIDENCE) / 2
# Three standard deviations of the share of resamples that lie beyond a quantile.
TAIL_NOISE = 3 * math.sqrt(TAIL * (1 - TAIL) / RESAMPLES)
COMBINED_MAX = 8


def of_copy(sample, measure):
    """Returns a copy's value of a measure, from its bytes and seconds."""
    rate = sample["bytes"] / 1e6 / sample["wall_seconds"] if sample["wall_seconds"] else math.inf
    gib = sample["bytes"] / 2**30
    cpu = sample["cpu_seconds"]
    return {
        "rate": rate,
        "megabits": 8 * rate,
        "cpu-per-gib": cpu / gib if gib and cpu else None,
        "wall": sample["wall_seconds"],
    }.get(measure)


def samples_of(cell, measure):
    """Returns a cell's samples of a measure, or its range as (value, low, high)."""
    own = cell.get("values", {}).get(measure)
    if isinstance(own, dict):
        return (own["value"], own["low"], own["high"])
    if own is not None:
        return [own] if isinstance(own, (int, float)) else []
    found = []
    for sample in cell["samples"]:
        value = of_copy(sample, measure) if "bytes" in sample else sample.get(measure)
        if value is not None and math.isfinite(value):
            found.append(value)
    return found


def is_doubtful(cell):
    """Returns whether other work disturbed more than a third of the runs behind a cell's figures."""
    behind = cell.get("behind", {"taken": 0, "disturbed": 0})
    taken = behind["taken"] + len(cell["samples"])
    disturbed = behind["disturbed"] + sum(sample.get("is_disturbed", False) for sample in cell["samples"])
    return 3 * disturbed > taken


def find(cells, place):
    """Returns the first cell whose place includes another."""
    for cell in cells:
        if all(cell["at"].get(axis) == value for axis, value in place.items()):
            return cell
    return None


def places(shape):
    """Returns the cells of a claim, in the order in which `figure` takes their figures."""
    kind = shape["shape"]
    if kind == "ratio":
        return [shape["numerator"], shape["denominator"]]
    if kind == "bound":
        return [shape["cell"]]
    if kind == "slope":
        return [place for _, place in shape["points"]]
    if kind == "sum":
        return shape["parts"] + shape["common"] + [shape["whole"]]
    if kind == "ratio-of-ratios":
        return shape["numerator"] + shape["denominator"]
    raise ValueError(f"unknown shape {kind}")


def figure(shape, values):
    """Returns the figure of a claim from one figure per cell."""
    kind = shape["shape"]
    if kind == "ratio":
        return values[0] / values[1]
    if kind == "bound":
        return values[0]
    if kind == "sum":
        parts, common = len(shape["parts"]), len(shape["common"])
        return values[-1] / (sum(values[:parts]) - sum(values[parts : parts + common]))
    if kind == "ratio-of-ratios":
        return (values[0] / values[1]) / (values[2] / values[3])
    xs, ys = [math.log(x) for x, _ in shape["points"]], [math.log(y) for y in values]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    joint = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    return joint / sum((x - mean_x) ** 2 for x in xs)


def quantile(ordered, share):
    """Returns a quantile by linear interpolation."""
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def interval_of(samples, rng, tail):
    """Returns the interval of a median without both tails; the whole range if there are few samples."""
    if len(samples) < SAMPLES_FOR_CONFIDENCE:
        return min(samples), max(samples)
    medians = sorted(statistics.median(rng.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    return quantile(medians, tail), quantile(medians, 1 - tail)


def interval(shape, evidence, values, rng, tail):
    """Returns the interval of a claim's figure without both tails."""
    estimate = figure(shape, values)
    if all(isinstance(one, list) for one in evidence) and (
        shape["shape"] != "ratio" or min(map(len, evidence)) >= SAMPLES_FOR_CONFIDENCE
    ):
        found = []
        for _ in range(RESAMPLES):
            medians = [statistics.median(rng.choices(one, k=len(one))) for one in evidence]
            try:
                found.append(figure(shape, medians))
            except (ZeroDivisionError, ValueError):
                continue
        found.sort()
        return min(quantile(found, tail), estimate), max(quantile(found, 1 - tail), estimate)
    ends = [interval_of(one, rng, tail) if isinstance(one, list) else one[1:] for one in evidence]
    if len(ends) <= COMBINED_MAX:
        choices = itertools.product(*ends)
    else:
        choices = (values[:at] + [end] + values[at + 1 :] for at, pair in enumerate(ends) for end in pair)
    found = [estimate] + [figure(shape, list(choice)) for choice in choices]
    return min(found), max(found)


def bounds(shape):
    """Returns the claimed bounds."""
    low, high = shape.get("low"), shape.get("high")
    return (-math.inf if low is None else low), (math.inf if high is None else high)


def judged(shape, evidence, low, high):
    """Returns the verdict on a figure with the interval from `low` to `high`."""
    least, most = bounds(shape)
    if any(isinstance(one, list) and len(one) < SAMPLES_FOR_CONFIDENCE for one in evidence):
        return "not-decidable"
    if low >= least and high <= most:
        return "holds"
    if high < least or low > most:
        return "does-not-hold"
    return "not-decidable"


def check(site, claim, rng):
    """Computes one claim again; returns the figure, the verdict, and a difference in words, if there is one."""
    with open(os.path.join(site, claim["data"]), encoding="utf-8") as file:
        outcomes = json.load(file)["outcomes"]
    # A claim may be about cells that another table of the same run shows.
    own = outcomes[claim["outcome"]]
    cells = own["cells"] + [cell for one in outcomes if one is not own for cell in one["cells"]]
    shape, measure = claim["claim"]["shape"], claim["claim"]["metric"]
    evidence, is_busy = [], False
    for place in places(shape):
        cell = find(cells, place)
        found = samples_of(cell, measure) if cell else []
        if not found:
            verdict = "not-measured"
            return None, verdict, "" if claim["verdict"] == verdict else "no samples"
        evidence.append(found)
        is_busy = is_busy or is_doubtful(cell)
    values = [statistics.median(one) if isinstance(one, list) else one[0] for one in evidence]
    try:
        value = figure(shape, values)
    except (ZeroDivisionError, ValueError):
        return None, "not-measured", "" if claim["verdict"] == "not-measured" else "no figure"

    def verdict_without(tail):
        # A claim about another size than the run's has a figure and no verdict.
        if claim["claim"].get("unjudged"):
            return "not-judged"
        found = judged(shape, evidence, *interval(shape, evidence, values, rng, tail))
        if found == "holds" and claim["claim"].get("is_by_construction"):
            return "by-construction"
        return "machine-busy" if is_busy else found

    verdict = verdict_without(TAIL)
    if claim["estimate"] is None or not math.isclose(value, claim["estimate"], rel_tol=1e-9):
        return value, verdict, f"the site has {claim['estimate']}"
    if claim["verdict"] not in (verdict, verdict_without(TAIL - TAIL_NOISE), verdict_without(TAIL + TAIL_NOISE)):
        return value, verdict, f"the site has {claim['verdict']}"
    return value, verdict, ""


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    site = arguments[0]
    count = int(arguments[1]) if len(arguments) > 1 else 3
    rng = random.Random(int(arguments[2])) if len(arguments) > 2 else random.Random()
    with open(os.path.join(site, "claims.json"), encoding="utf-8") as file:
        claims = json.load(file)
    differ = 0
    for claim in rng.sample(claims, min(count, len(claims))):
        value, verdict, difference = check(site, claim, rng)
        text = "no figure" if value is None else f"{value:.4g}"
        mark = f"DIFFERS: {difference}" if difference else "as on the site"
        print(f"{claim['study']}: {claim['claim']['statement']}\n    {text}, {verdict}: {mark}")
        differ += bool(difference)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
