package relay

import (
	"io"
)

// endlessEvents is a stream of an upstream that sends one event at each read.
type endlessEvents struct{ event []byte }

func (e endlessEvents) Read(buf []byte) (int, error) { return copy(buf, e.event), nil }
func (e endlessEvents) Close() error                 { return nil }

var _ io.ReadCloser = endlessEvents{}
