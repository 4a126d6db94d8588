package pages

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
)

// Fifty other streams run, and the page gets its answer.
func TestFiftyStreams(t *testing.T) {
	weir := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	whole := 0
	for range 50 {
		all.Go(func() {
			for ctx.Err() == nil {
				if ended := askAlone(ctx, weir); ended {
					mu.Lock()
					whole++
					mu.Unlock()
				}
			}
		})
	}
	p := open(t, weir, "/playground/")
	for i := range 3 {
		p.ask(fmt.Sprintf("What is a weir? (%d)", i))
		if answer := p.answered(); !strings.Contains(answer, "first token") {
			t.Errorf("under load the page shows %q", answer)
		}
	}
	cancel()
	all.Wait()
	t.Logf("%d answers to others meanwhile", whole)
	if whole == 0 {
		t.Error("no other stream was answered")
	}
}

// askAlone streams one answer to its end.
func askAlone(ctx context.Context, base string) bool {
	body := []byte(`{"messages":[{"role":"user","content":"What is a weir?"}],"stream":true,"max_tokens":64}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+chats, bytes.NewReader(body))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return err == nil && bytes.Contains(text, []byte("[DONE]"))
}

// memory is what the page's scripts hold once garbage is collected, and how many elements it has.
func (p *tab) memory() (bytes float64, elements int) {
	p.t.Helper()
	p.do(command(heapprofiler.CollectGarbage, cdp.Empty{}))
	return evaluate[float64](p, "performance.memory.usedJSHeapSize"), evaluate[int](p, "document.querySelectorAll('*').length")
}

// An answer of 20,000 parts is drawn by its end alone.
func TestLongAnswer(t *testing.T) {
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, _ *http.Request) {
		s := newStream(w)
		for i := range 2000 {
			s.text(strings.Repeat(fmt.Sprintf("Part %d of *many*, with `code` and [a link](https://example.org/).\n\n", i), 10))
		}
		s.text("The very end.")
		s.end("stop")
	}}), "/playground/")
	p.ask("Much")
	p.sees("The very end.")
	p.answered()
	used, elements := p.memory()
	t.Logf("%.1f MB, %d elements", used/1e6, elements)
	if elements > 3000 || used > 60e6 {
		t.Errorf("the page holds %.1f MB and %d elements", used/1e6, elements)
	}
	p.sees("earlier parts of")
}

// A page that is open for long, under load, holds no more at the end than after a while: a minute's part of ten, or all of them where
// WEIR_TEST_LONG is set.
func TestMemoryStaysBounded(t *testing.T) {
	t.Parallel()
	weir := serve(t)
	lasts := 20 * time.Second
	if os.Getenv("WEIR_TEST_LONG") != "" {
		lasts = 10 * time.Minute
	}
	streamMany(t, 8, weir)
	p := openFor(t, lasts+2*time.Minute, weir, "/playground/")
	var early float64
	answers := 0
	began := time.Now()
	for time.Since(began) < lasts {
		p.ask("What is a weir?")
		p.answered()
		answers++
		if answers%10 == 0 {
			p.click("New chat") // before the context of the small model ends
			p.wait("document.querySelectorAll('.turn').length === 0 && !location.hash.includes('-')")
		}
		if early == 0 && time.Since(began) > lasts/5 {
			early, _ = p.memory()
		}
	}
	late, elements := p.memory()
	t.Logf("%d answers in %v: %.1f MB after a fifth, %.1f MB at the end, %d elements", answers, lasts, early/1e6, late/1e6, elements)
	if late > early*1.5+5e6 || elements > 5000 {
		t.Errorf("the page grew from %.1f to %.1f MB and has %d elements", early/1e6, late/1e6, elements)
	}
}
