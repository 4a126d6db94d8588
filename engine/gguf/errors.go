package gguf

import "errors"

// Sentinels of this package. Every error of Parse, Open and the readers wraps
// one of them (or an error of the operating system), and names the key or
// tensor, the value found and the way out.
var (
	ErrNotRegular      = errors.New("not a regular file")
	ErrFormat          = errors.New("malformed GGUF file")
	ErrVersion         = errors.New("unsupported GGUF version")
	ErrByteOrder       = errors.New("big-endian GGUF file")
	ErrTruncated       = errors.New("truncated GGUF file")
	ErrSplit           = errors.New("inconsistent split GGUF model")
	ErrUnsupportedType = errors.New("unsupported tensor type")
	ErrValue           = errors.New("unusable metadata value")
)
