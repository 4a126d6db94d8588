// Package onnx reads ONNX models and evaluates them in plain Go: tree ensembles,
// linear models, scalers, encoders, imputers, support vector machines, the operators
// that scikit-learn pipelines are converted to, and those of neural networks, in
// float32 and in bytes. Load checks a model whole: an operator, a type or an attribute that is not
// supported is an error that names it, before the first row.
//
// A row's result does not depend on which other rows are in the batch: sums are
// added in one fixed order per row.
//
// In a build with the tag ort, SetRuntime names the library of ONNX Runtime, which
// then runs the models that are not supported here.
package onnx
