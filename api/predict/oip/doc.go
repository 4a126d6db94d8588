// Package oip is the service of the Open Inference Protocol over gRPC and its messages,
// generated from inference.proto by `make generate`.
package oip
