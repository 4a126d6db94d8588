package fleet

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"weir/internal/reference"
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
			g := streamChecker{dialect: d}
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
	reference.Slow(t)
	long := "data: {\"type\":\"response.output_text.done\",\"text\":\"" + strings.Repeat("long ", 4<<20) + "\"}\n\n"
	for d, begin := range begins {
		for _, size := range []int{4096, 1<<20 + 7, len(long)} {
			g := streamChecker{dialect: d}
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

// Words of a message behind its stop reason do not pass, and are told of; its end and what is no word do.
func TestWordsBehindAStopReasonDoNotPass(t *testing.T) {
	const (
		stop  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":3}}\n\n"
		usage = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":null},\"usage\":{\"output_tokens\":2}}\n\n"
		over  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
		more  = "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"MORE\"}}\n\n"
		block = "event: content_block_start\ndata: {\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"MORE\"},\"type\":\"content_block_start\"}\n\n"
		shut  = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
		ping  = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	)
	for name, tc := range map[string]struct {
		stream  string
		overrun bool
	}{
		"a delta":            {messageBegins + messageSays + stop + "event: content_block_delta\n" + more + over, true},
		"a delta, no field":  {messageBegins + messageSays + stop + more + over, true},
		"a block":            {messageBegins + messageSays + stop + block + over, true},
		"its end and a ping": {messageBegins + messageSays + messageSays + usage + messageSays + stop + shut + ping + over, false},
	} {
		for size := 1; size <= len(tc.stream); size += 7 {
			g := streamChecker{dialect: dialect(router.Messages)}
			var got strings.Builder
			for rest := []byte(tc.stream); len(rest) > 0; {
				n := min(size, len(rest))
				pass, err := g.add(rest[:n])
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				got.Write(pass)
				rest = rest[n:]
			}
			rest, whole := g.end(io.EOF)
			text := got.String() + string(rest)
			if !whole || strings.Contains(text, "MORE") || !strings.Contains(text, over[:len(over)-1]) || isOverrun(g.said) != tc.overrun ||
				strings.Count(text, `"text":"x"`) != strings.Count(tc.stream, `"text":"x"`) {
				t.Fatalf("%s in pieces of %d: whole %v, %v\n%s", name, size, whole, g.said, text)
			}
		}
	}
}
