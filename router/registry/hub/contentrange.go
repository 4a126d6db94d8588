package hub

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrRange says that a Content-Range is none.
var ErrRange = errors.New("wrong Content-Range")

// ContentRange is which bytes of how many an answer holds.
type ContentRange struct {
	First, Last int64 // both inclusive
	Size        int64 // of the whole
}

// ParseContentRange reads "bytes FIRST-LAST/SIZE" of RFC 9110, section 14.4, where SIZE must be known.
func ParseContentRange(text string) (ContentRange, error) {
	wrong := func() (ContentRange, error) { return ContentRange{}, fmt.Errorf("%w: %.100q", ErrRange, text) }
	unit, rest, _ := strings.Cut(text, " ")
	span, size, found := strings.Cut(rest, "/")
	first, last, dashed := strings.Cut(span, "-")
	if !strings.EqualFold(unit, "bytes") || !found || !dashed {
		return wrong()
	}
	var r ContentRange
	for _, number := range []struct {
		text string
		into *int64
	}{{first, &r.First}, {last, &r.Last}, {size, &r.Size}} {
		n, err := strconv.ParseUint(number.text, 10, 63)
		if err != nil {
			return wrong()
		}
		*number.into = int64(n)
	}
	if r.First > r.Last || r.Last >= r.Size {
		return wrong()
	}
	return r, nil
}
