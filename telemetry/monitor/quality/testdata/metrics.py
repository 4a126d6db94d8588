"""Writes metrics.json: what scikit-learn says of random predictions, for the tests of
quality.

    python metrics.py > metrics.json

needs the packages numpy and scikit-learn.
"""
import json

import numpy
from sklearn import calibration, metrics

rng = numpy.random.default_rng(11)
binary, classes, regression = [], [], []
for rows, digits in [(3, 9), (50, 1), (400, 2), (400, 12)]:
    truth = rng.random(rows)
    labels = (rng.random(rows) < truth).astype(int)
    labels[:2] = [0, 1]
    scores = numpy.round(numpy.clip(truth + rng.normal(0, 0.2, rows), 0, 1), digits)
    rate, mean = calibration.calibration_curve(labels, scores, n_bins=10)
    binary.append({
        "scores": scores.tolist(), "labels": labels.tolist(), "auc": metrics.roc_auc_score(labels, scores),
        "log_loss": metrics.log_loss(labels, scores), "brier": metrics.brier_score_loss(labels, scores),
        "accuracy": metrics.accuracy_score(labels, scores >= 0.5), "rate": rate.tolist(), "mean": mean.tolist()})
    shares = rng.dirichlet(numpy.ones(4), rows)
    kinds = numpy.array([rng.choice(4, p=p) for p in shares])
    classes.append({"shares": shares.tolist(), "labels": kinds.tolist(),
                    "log_loss": metrics.log_loss(kinds, shares, labels=[0, 1, 2, 3]),
                    "accuracy": metrics.accuracy_score(kinds, shares.argmax(1))})
    y, x = rng.normal(5, 3, rows), rng.normal(5, 3, rows)
    x = y + (x - y) * 0.3
    regression.append({"scores": x.tolist(), "labels": y.tolist(), "rmse": float(metrics.mean_squared_error(y, x)) ** 0.5,
                       "mae": metrics.mean_absolute_error(y, x), "r2": metrics.r2_score(y, x), "bias": float((x - y).mean())})
print(json.dumps({"binary": binary, "classes": classes, "regression": regression}))
