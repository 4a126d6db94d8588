package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	promtext "github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weir/api/batch"
	"weir/internal/console"
)

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [ADDRESS]",
		Short: "Show what a running server does: queues, tenants, KV cache, rates, latencies",
		Long: "Show what a running server does, once a second: sequences, the waiting queue and the KV cache\n" +
			"of each model, tokens and requests per second, latencies since the last look, who runs and\n" +
			"waits, the oldest requests with what they wait for, and how far batches are. ADDRESS is that of the server's second\n" +
			"listener (--admin-address of serve), http://127.0.0.1:9090 by default. Ctrl-C ends it.",
		Example: "  weir top\n  weir top 127.0.0.1:9091 --interval 5s\n  weir top https://10.0.0.5:9090 --ca ca.crt\n  weir top --once",
		Args:    atMost(1),
	}
	interval := cmd.Flags().Duration("interval", time.Second, "time between two looks")
	once := cmd.Flags().Bool("once", false, "look twice, one interval apart, print and end")
	key := new(string)
	keyFlag(cmd.Flags(), key, "key", "WEIR_ADMIN_KEY", "API key with the admin scope, where the server asks for one")
	ca := cmd.Flags().String("ca", "", "PEM file of the authorities that sign the server's certificate, for https addresses (default: the system's)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *interval < 100*time.Millisecond {
			return &console.UsageError{Err: fmt.Errorf("--interval is %v; it takes at least 100ms", *interval)}
		}
		base, err := adminURL(args)
		if err != nil {
			return err
		}
		client, err := lookClient(*ca)
		if err != nil {
			return &console.UsageError{Err: err}
		}
		ctx, stop := interruptible(cmd)
		defer stop()
		t := &top{base: base, key: *key, client: client, out: cmd.OutOrStdout()}
		return t.run(ctx, *interval, *once)
	}
	return cmd
}

// lookClient trusts the authorities of a file, or with "" those of the system.
func lookClient(ca string) (*http.Client, error) {
	client := &http.Client{Timeout: lookTimeout}
	if ca == "" {
		return client, nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w; name a PEM file of certificates", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--ca: %s has no certificate; name a PEM file of certificates", ca)
	}
	client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	return client, nil
}

// adminURL is the address that the user named, or the default.
func adminURL(args []string) (string, error) {
	text := "http://127.0.0.1:9090"
	if len(args) > 0 {
		text = args[0]
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", &console.UsageError{Err: fmt.Errorf("the address is %.100q; it must be like 127.0.0.1:9090", args[0])}
	}
	return u.Scheme + "://" + u.Host, nil
}

// top looks at a server again and again.
type top struct {
	base   string
	key    string // "" where the server asks for none
	client *http.Client
	out    io.Writer
}

const (
	// lookTimeout is more than the server takes to ask an engine in a long step.
	lookTimeout = 10 * time.Second
	// lookBytes bounds what a server may answer.
	lookBytes = 64 << 20
	// lookRequests is how many running requests are asked for.
	lookRequests = 5000
)

// serverSnapshot is what a server said at one moment.
type serverSnapshot struct {
	at       time.Time
	metrics  scrape
	requests []topRequest
	matching int // requests that run; requests may hold fewer
	batches  []batch.Progress
	note     string // what the server could not say
}

// topRequest is the part of GET /admin/requests that top shows.
type topRequest struct {
	ID      string      `json:"id"`
	Tenant  string      `json:"tenant"`
	Seconds float64     `json:"seconds"`
	Prompt  int         `json:"prompt_tokens"`
	Engine  []topPrompt `json:"engine"`
}

// topPrompt is what the engine says of one prompt.
type topPrompt struct {
	Phase    string  `json:"phase"`
	WaitsFor string  `json:"waits_for"`
	Class    string  `json:"class"`
	Debt     float64 `json:"fairness_debt_seconds"`
	Prefill  int     `json:"prefill_tokens"`
	Output   int     `json:"output_tokens"`
	KVBlocks int     `json:"kv_blocks"`
}

func (t *top) run(ctx context.Context, interval time.Duration, once bool) error {
	before, err := t.look(ctx)
	if err != nil {
		return err
	}
	screen := newScreen(t.out)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
		now, err := t.look(ctx)
		switch {
		case err != nil && ctx.Err() == nil && once:
			return err
		case err != nil && ctx.Err() == nil:
			screen.show([]string{fmt.Sprintf("weir top  %s", t.base), "", err.Error()})
			continue
		case err != nil:
			continue // interrupted: the loop ends above
		}
		lines := render(t.base, before, now)
		before = now
		if once {
			_, err := fmt.Fprintln(t.out, strings.Join(lines, "\n"))
			return err
		}
		screen.show(lines)
	}
}

// look asks for metrics and running requests.
func (t *top) look(ctx context.Context) (*serverSnapshot, error) {
	l := &serverSnapshot{at: time.Now()}
	text, err := t.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(promtext.UTF8Validation)
	if l.metrics, err = parser.TextToMetricFamilies(strings.NewReader(string(text))); err != nil {
		return nil, fmt.Errorf("read %s/metrics: %w; is this the admin listener of a weir server?", t.base, err)
	}
	text, err = t.get(ctx, fmt.Sprintf("/admin/requests?state=running&limit=%d", lookRequests))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Requests []topRequest `json:"requests"`
		Matching int          `json:"matching"`
		Note     string       `json:"engine_error"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("read %s/admin/requests: %w; is this the admin listener of a weir server?", t.base, err)
	}
	l.requests, l.matching, l.note = answer.Requests, answer.Matching, answer.Note
	l.batches, err = t.unfinished(ctx)
	return l, err
}

// unfinished asks for the batches that are not over. A server from before there were batches has none.
func (t *top) unfinished(ctx context.Context) ([]batch.Progress, error) {
	text, err := t.get(ctx, "/admin/batches")
	if errors.Is(err, errNoSuchPath) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var answer struct {
		Batches []batch.Progress `json:"batches"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("read %s/admin/batches: %w; is this the admin listener of a weir server?", t.base, err)
	}
	return answer.Batches, nil
}

// errNoSuchPath: the server has nothing at a path.
var errNoSuchPath = errors.New("there is no such path")

func (t *top) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+path, nil)
	if err != nil {
		return nil, err
	}
	if t.key != "" {
		r.Header.Set("Authorization", "Bearer "+t.key)
	}
	answer, err := t.client.Do(r)
	if err != nil {
		if refused, ok := errors.AsType[*url.Error](err); ok {
			err = refused.Err
		}
		return nil, fmt.Errorf("ask %s: %w; start a server with weir serve, or name its --admin-address", t.base, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, lookBytes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask %s%s: %w", t.base, path, err)
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("ask %s%s: %s; give a key with the admin scope with --key", t.base, path, answer.Status)
	case answer.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("ask %s%s: %w; is this the admin listener of a weir server?", t.base, path, errNoSuchPath)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask %s%s: %s; is this the admin listener of a weir server?", t.base, path, answer.Status)
	}
	return body, nil
}

// screen draws frames over one another on a terminal, and one after the other
// elsewhere.
type screen struct {
	out io.Writer
	tty *os.File // nil: no terminal
}

func newScreen(out io.Writer) *screen {
	if console.IsTerminal(out) {
		return &screen{out, out.(*os.File)} //nolint:forcetypeassert // isTerminal
	}
	return &screen{out: out}
}

// show draws one frame, cut to the terminal's size.
func (s *screen) show(lines []string) {
	if s.tty == nil {
		fmt.Fprintln(s.out, strings.Join(lines, "\n")+"\n")
		return
	}
	width, height, err := term.GetSize(int(s.tty.Fd()))
	if err != nil || width < 1 || height < 2 {
		width, height = 80, 24
	}
	lines = lines[:min(len(lines), height-1)]
	var frame strings.Builder
	frame.WriteString("\x1b[H") // to the upper left
	for _, line := range lines {
		if cells := []rune(line); len(cells) > width {
			line = string(cells[:width])
		}
		frame.WriteString(line + "\x1b[K\n") // what was behind the line goes
	}
	frame.WriteString("\x1b[J") // and below
	fmt.Fprint(s.out, frame.String())
}
