"""Writes distances.json: distances between histograms, for the tests of drift.

    python distances.py > distances.json

needs the packages numpy and scipy. The last bin of each is that of missing values.
"""
import json

import numpy
import scipy.spatial.distance
import scipy.stats

rng = numpy.random.default_rng(7)
cases = []
for bins in [2, 3, 11, 40]:
    for rows in [50, 1000, 100_000]:
        a = rng.multinomial(rows * 3, rng.dirichlet(numpy.ones(bins)))
        b = rng.multinomial(rows, rng.dirichlet(numpy.ones(bins) * rng.choice([0.3, 1, 10])))
        p, q = (a + 0.5) / (a.sum() + bins / 2), (b + 0.5) / (b.sum() + bins / 2)
        case = {"reference": a.tolist(), "now": b.tolist(),
                "psi": float(numpy.sum((q - p) * numpy.log(q / p))),
                "js": float(scipy.spatial.distance.jensenshannon(a, b, base=2)), "ks": 0.0}
        if a[:-1].sum() and b[:-1].sum():
            case["ks"] = float(scipy.stats.ks_2samp(numpy.repeat(numpy.arange(bins - 1), a[:-1]),
                                                    numpy.repeat(numpy.arange(bins - 1), b[:-1])).statistic)
        cases.append(case)
print(json.dumps(cases, indent=1))
