package sse_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"weir/internal/sse"
)

// Comments are skipped, and lines of one event joined.
func Example() {
	stream := ": keep-alive\n\ndata: {\"delta\": \"A\"}\n\ndata: two\r\ndata: lines\r\n\r\ndata: [DONE]\n\n"
	r := sse.NewReader(strings.NewReader(stream), sse.Limits{Event: 1 << 20})
	for {
		data, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q\n", data)
	}
	// Output:
	// "{\"delta\": \"A\"}"
	// "two\nlines"
	// "[DONE]"
}
