// Package gbdt evaluates ensembles of decision trees: what XGBoost, LightGBM and CatBoost train, and ONNX's tree operators.
//
// Ensemble is the one representation of all of them. Readers fill it, New checks it once, and a kernel that is
// chosen at load computes it. The reference of every kernel is the walker, which follows the nodes one by one in the
// order in which the library itself adds its trees, so that margins equal the library's bit for bit.
package gbdt
