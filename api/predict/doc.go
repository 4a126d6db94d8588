// Package predict serves classical models over the protocols that their clients speak:
// V1 (TensorFlow Serving, KServe), V2 (the Open Inference Protocol) over HTTP, with
// binary tensors, and over gRPC, and Triton's extensions for statistics, the model
// repository, classification, priorities and timeouts.
//
// Server is an api.Handler in front of another one, api/openai's: both answer on one
// listener, with the same callers, limits, refusals and hooks, and predict passes on
// what is not its own. docs/predict.md describes the protocols for users.
//
// # Formats
//
// Bodies are read once, by a scanner of this package: numbers go straight into the
// tensor, rounded exactly, and JSON's missing numbers NaN, Infinity and -Infinity are
// taken and given, as TensorFlow Serving does. Binary tensors are not copied: they stay
// in the body's memory, which is never reused.
package predict
