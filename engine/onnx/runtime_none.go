//go:build !ort

package onnx

import (
	"errors"

	"weir/internal/tensor"
)

var errNoRuntime = errors.New("onnx: this weir is built without ONNX Runtime; build it with -tags ort, or leave the library's path out")

// SetRuntime names ONNX Runtime's shared library, which from then on runs the models
// that this package's evaluator does not support. Only a build with the tag ort can.
func SetRuntime(string) error { return errNoRuntime }

func runtimeIsSet() bool { return false }

// session is a model in ONNX Runtime; there is none in this build.
type session struct{}

func openSession([]byte, *modelProto) (*Model, error) { return nil, errNoRuntime }

func (*session) close() error { return nil }

func (*session) run(*Model, []tensor.Tensor) ([]tensor.Tensor, error) { return nil, errNoRuntime }
