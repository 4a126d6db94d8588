package pages

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is the Chromium that all tests share; each has a profile of its own in it.
var browser context.Context

func TestMain(m *testing.M) {
	path := os.Getenv("CHROMIUM")
	if path == "" || os.Getenv("WEIR_BINARY") == "" {
		fmt.Println("CHROMIUM and WEIR_BINARY name the browser and weir; .ci/pages-check sets them")
		os.Exit(2)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	var end context.CancelFunc
	browser, end = chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil {
		fmt.Println("start the browser:", err)
		os.Exit(2)
	}
	status := m.Run()
	end()
	stop()
	os.Exit(status)
}

// tab is a page that is open, with what went wrong in it.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string // of the server

	mu      sync.Mutex
	faults  []string
	allowed []string // parts of faults that the test makes itself
}

// open shows an address of a server in a new profile. At the end of the test no request has left the server's host, and the page had no
// fault of its own.
func open(t *testing.T, server, path string, allowed ...string) *tab {
	t.Helper()
	return openFor(t, 2*time.Minute, server, path, allowed...)
}

// openFor is open for a page that is used for longer.
func openFor(t *testing.T, most time.Duration, server, path string, allowed ...string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	ctx, end := context.WithTimeout(ctx, most)
	return show(ctx, t, func() { end(); cancel() }, server, path, allowed...)
}

// beside opens another tab of the same profile.
func (p *tab) beside(path string) *tab {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	return show(ctx, p.t, cancel, p.url, path)
}

// show shows an address in the tab of a context, which end ends.
func show(ctx context.Context, t *testing.T, end func(), server, path string, allowed ...string) *tab {
	t.Helper()
	p := &tab{t: t, ctx: ctx, url: server, allowed: allowed}
	t.Cleanup(func() {
		p.mu.Lock()
		for _, fault := range p.faults {
			t.Error(fault)
		}
		p.mu.Unlock()
		end()
	})
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	p.do(command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}), chromedp.Navigate(server+path))
	return p
}

// hear notes requests to other hosts, exceptions, and what the browser reports, a breach of the page's policy among it.
func (p *tab) hear(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, p.url+"/") && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:"+p.url) {
			p.note("a request to another host: " + u)
		}
	case *runtime.EventExceptionThrown:
		p.note("an exception: " + fmt.Sprintf("%+v", e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.note("the browser reports: " + e.Entry.Text + " " + e.Entry.URL)
		}
	}
}

func (p *tab) note(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.allowed {
		if strings.Contains(fault, part) {
			return
		}
	}
	p.faults = append(p.faults, fault)
}

// command is a command of the browser that answers nothing.
func command[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("%v; the page says:\n%.1500s", err, p.body())
	}
}

// body is what the page says, for messages.
func (p *tab) body() string {
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// wait returns once a JavaScript expression holds; it is looked at before each frame.
func (p *tab) wait(expression string) {
	p.t.Helper()
	watch := fmt.Sprintf(`new Promise((done) => { const look = () => { let ok = false; try { ok = %s; } catch {} ok ? done(true) : setTimeout(look, 16); }; look(); })`, expression)
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](watch, chromedp.EvalAwaitPromise))
		if err == nil {
			return
		}
		if ctx.Err() != nil || !hasLeft(err) {
			p.t.Fatalf("wait for %s: %v; the page says:\n%.1500s", expression, err, p.body())
		}
	}
}

// hasLeft tells that the page went to another address meanwhile.
func hasLeft(err error) bool {
	for _, text := range []string{"navigated or closed", "context was destroyed", "Cannot find context"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// sees waits until the page shows a text.
func (p *tab) sees(text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// evaluate is the value of an expression.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// script runs statements, whose value is not looked at.
func (p *tab) script(statements string) {
	p.t.Helper()
	evaluate[bool](p, statements+"; true")
}

// types sends keys to the first element of a selector.
func (p *tab) types(selector, keys string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("document.querySelector(%q)", selector))
	p.do(chromedp.Focus(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), keys))
}

// click presses a button by its label.
func (p *tab) click(label string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("button, [role=switch], summary")].findLast((b) => (b.ariaLabel || b.labels?.[0]?.innerText || b.innerText).trim() === %q && !b.disabled)`, label)
	p.wait(find + " !== undefined")
	p.script(find + ".click()")
}

// ask types a turn and sends it.
func (p *tab) ask(text string) {
	p.t.Helper()
	p.wait("document.querySelector('#composer') && !document.querySelector('[aria-label=Stop]')")
	p.types("#composer", text+"\r")
}

// answered waits for the end of the last answer and is its text.
func (p *tab) answered() string {
	p.t.Helper()
	p.wait(`[...document.querySelectorAll(".turn.assistant")].at(-1)?.getAttribute("aria-busy") === "false"`)
	return evaluate[string](p, `[...document.querySelectorAll(".turn.assistant")].at(-1).innerText`)
}
