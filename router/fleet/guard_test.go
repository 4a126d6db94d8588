package fleet

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"weir/router"
)

// begins are the events up to content of each kind of stream, and endsWell are their ends.
var begins, endsWell = map[dialect]string{
	"": event("a"), dialect(router.Messages): messageBegins + messageSays, dialect(router.Responses): responseBegins + responseSays,
}, map[dialect]string{
	"": last + done, dialect(router.Messages): messageEnds, dialect(router.Responses): responseEnds,
}

// A line without an end stops the stream, in any dialect and wherever its pieces are cut, and not much of it is kept.
func TestEndlessLines(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 99_991)
	for d, begin := range begins {
		for _, line := range []string{`data: {"type":"content_block_delta","delta":{"text":"`, ": ", ""} {
			g := guard{dialect: d}
			pass, err := g.add([]byte(begin + line))
			passed := len(pass)
			for ; err == nil && passed < 2*maxAnswerBytes; passed += len(pass) {
				pass, err = g.add(piece)
				if len(g.line) > 2*maxLineBytes || len(g.out) > 2*maxLineBytes {
					t.Fatalf("%d bytes are kept", len(g.line)+len(g.out))
				}
			}
			if fault, ok := errors.AsType[*faultError](err); !ok || fault.fault != BadAnswer || passed > len(begin)+maxAnswerBytes {
				t.Errorf("%q %q: %v behind %d bytes", d, line, err, passed)
			}
		}
	}
}

// A long event passes as it is, and what follows it is judged.
func TestLongLines(t *testing.T) {
	long := "data: {\"type\":\"response.output_text.done\",\"text\":\"" + strings.Repeat("long ", 4<<20) + "\"}\n\n"
	for d, begin := range begins {
		for _, size := range []int{4096, 1<<20 + 7, len(long)} {
			g := guard{dialect: d}
			var got strings.Builder
			for rest := []byte(begin + long + endsWell[d]); len(rest) > 0; {
				n := min(size, len(rest))
				pass, err := g.add(rest[:n])
				if err != nil {
					t.Fatalf("%q: %v", d, err)
				}
				got.Write(pass)
				rest = rest[n:]
			}
			if rest, whole := g.end(io.EOF); !whole || got.String()+string(rest) != begin+long+endsWell[d] {
				t.Errorf("%q in pieces of %d: whole %v, %d bytes", d, size, whole, got.Len())
			}
			if _, err := g.add([]byte("data: torn\n")); err == nil {
				t.Errorf("%q: what is no JSON passes behind a long line", d)
			}
		}
	}
}
