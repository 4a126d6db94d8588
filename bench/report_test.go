package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files again")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", path, got)
	}
}

// sampleReport is a report of the sample load.
func sampleReport() *Report {
	slos := []SLO{{"ttft", 300}}
	return &Report{
		Figures: Compute(sample(), slos), Load: sample(), Target: &Target{Endpoint: EndpointCompletions, Model: "org/m"},
		Options: &ServeOptions{Rate: 2.5, Burstiness: 1, MaxConcurrency: 4, Seed: 9, Requests: make([]Request, 4)},
		SLOs:    slos, Shown: []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"},
		Percentiles: []float64{50, 99, 99.9}, Label: "l", Metadata: [][2]string{{"gpu", "none"}},
	}
}

func TestReportTable(t *testing.T) {
	var out strings.Builder
	if err := sampleReport().Print(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.golden", out.String())
}

// fixed is a result without what changes from run to run.
func fixed(kind string) *Result {
	r := NewResult(kind)
	r.Date, r.Go, r.OS, r.CPU, r.Commit, r.Version = "2026-01-02T03:04:05Z", "go1", "linux/amd64", "CPU 9", "abc", "v1"
	return r
}

func TestReportFile(t *testing.T) {
	r := fixed("serve")
	r.Flags["num-prompts"] = "4"
	sampleReport().Fill(r)
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", out.String())
}

// A result that was written reads back, with rows, members and distributions.
func TestResultRoundTrip(t *testing.T) {
	r := fixed("serve")
	sampleReport().Fill(r)
	path := filepath.Join(t.TempDir(), "new", "r.json")
	if err := r.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	back, err := ReadResult(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Rows) != len(r.Rows) || back.Model != r.Model || back.Seed != 9 || string(back.extra["gpu"]) != `"none"` {
		t.Errorf("read back %+v", back)
	}
	if got := back.distributions()["ttft"]; len(got) != 101 || !near(got[50], 200) {
		t.Errorf("distribution of %d points: %v", len(got), got)
	}
}

func TestNotes(t *testing.T) {
	p := sampleReport()
	p.Unique = true
	notes := strings.Join(p.Notes(), "\n")
	for _, want := range []string{"1 of 3 answers came without usage", "0.70 chunks", "1 of 4 requests failed", "1 truncated",
		"5 % of the prompt tokens"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note with %q in\n%s", want, notes)
		}
	}
	if got := p.Errors(10); !slices.Equal(got, []string{"truncated: x"}) {
		t.Errorf("errors %q", got)
	}
}

func TestParsers(t *testing.T) {
	if got, err := ParsePercentiles("50, 99.9"); err != nil || !slices.Equal(got, []float64{50, 99.9}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseMetrics("itl,first_text"); err != nil || !slices.Equal(got, []string{"itl", "first_text"}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseSLO("e2el:1.5"); err != nil || got != (SLO{"e2el", 1.5}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseMetadata(" a = b=c "); err != nil || got != [2]string{"a", "b=c"} {
		t.Errorf("%v, %v", got, err)
	}
	for _, err := range []error{
		second(ParsePercentiles("101")), second(ParsePercentiles("")), second(ParsePercentiles("NaN")),
		second(ParseMetrics("ttft,")), second(ParseMetrics("latency")),
		second(ParseSLO("ttft")), second(ParseSLO("itl:5")),
		second(ParseSLO("ttft:-1")), second(ParseSLO("ttft:NaN")), second(ParseSLO("ttft:x")),
		second(ParseMetadata("x")), second(ParseMetadata("=x")), second(ParseMetadata("date=x")), second(ParseMetadata("rows=x")),
	} {
		if err == nil {
			t.Error("a wrong word of the command line was taken")
		}
	}
}

func second[T any](_ T, err error) error { return err }

// pair are two results that differ in all ways that a comparison tells.
func pair() []*Result {
	a, b := fixed("engine"), fixed("engine")
	a.Model, b.Model = ModelRef{Path: "m.gguf", Digest: "aa"}, ModelRef{Path: "m.gguf", Digest: "bb"}
	a.Flags, b.Flags = map[string]string{"p": "512", "plot": "x"}, map[string]string{"p": "512", "plot": "y", "n": "8"}
	a.Threads, b.Threads, b.CPU = 2, 4, "CPU 10"
	a.Notes, b.Notes = []string{"both"}, []string{"both", "only here"}
	a.Add("pp512", "tok/s", 100, 101, 99, 100, 100)
	b.Add("pp512", "tok/s", 120, 121, 119, 120, 122)
	a.Add("tg128", "tok/s", 10, 11, 9, 10, 12)
	b.Add("tg128", "tok/s", 10.1, 12, 9.1, 11, 13)
	a.AddValue("median_ttft_ms", "ms", 20)
	b.AddValue("median_ttft_ms", "ms", 30)
	a.AddValue("std_ttft_ms", "ms", 20)
	b.AddValue("std_ttft_ms", "ms", 30)
	a.AddValue("read", "GB/s", 1234.5678)
	b.AddValue("read", "GB/s", 1240)
	a.AddValue("failed", "", 0)
	b.AddValue("failed", "", 3)
	a.AddValue("only a", "s", 0.00012345)
	b.AddValue("only b", "s", 2)
	a.AddValue("unit", "s", 1)
	b.AddValue("unit", "ms", 1000)
	return []*Result{a, b}
}

func TestCompareTable(t *testing.T) {
	c, err := Compare(pair(), ShortNames(2), CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.golden", out.String())
}

func TestCompareThree(t *testing.T) {
	three := append(pair(), fixed("engine"))
	three[2].AddValue("pp512", "tok/s", 50)
	c, err := Compare(three, ShortNames(3), CompareOptions{Only: "pp", Threshold: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	cells := c.Lines[0].Cells
	if len(c.Lines) != 1 || cells[1].Verdict != Same || cells[2].Verdict != Worse || !near(cells[2].Ratio, 0.5) || cells[2].P != -1 {
		t.Errorf("%+v", c.Lines)
	}
	if got := strings.Join(ShortNames(28)[24:], " "); got != "Y Z A1 B1" {
		t.Errorf("names %s", got)
	}
}

func TestCompareRefuses(t *testing.T) {
	for _, err := range []error{
		second(Compare(pair()[:1], []string{"A"}, CompareOptions{})),
		second(Compare(pair(), ShortNames(2), CompareOptions{Only: "no such row"})),
		second(Compare(pair(), ShortNames(2), CompareOptions{Threshold: math.NaN()})),
		second(Compare(pair(), ShortNames(2), CompareOptions{Threshold: -1})),
	} {
		if err == nil {
			t.Error("a comparison that cannot be was made")
		}
	}
}

// A file of vLLM's own tool becomes rows.
func TestForeignResult(t *testing.T) {
	r, err := decodeResult(strings.NewReader(`{"date":"20260102-030405","backend":"openai","model_id":"org/m","duration":2.5,"completed":3,
		"request_throughput":1.2,"request_goodput":null,"output_throughput":40,"mean_ttft_ms":5,"p99_ttft_ms":9.5,"p99.9_itl_ms":1,"ttfts":[0.1],"label":null}`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range r.Rows {
		names = append(names, row.Name+" "+row.Unit)
	}
	want := "completed |duration s|request_throughput req/s|output_throughput tok/s|mean_ttft_ms ms|p99.9_itl_ms ms|p99_ttft_ms ms"
	if got := strings.Join(names, "|"); got != want || r.Tool != "vllm bench" || r.Model.Name != "org/m" {
		t.Errorf("%s of %s, rows\n%s, want\n%s", r.Model.Name, r.Tool, got, want)
	}
}

func TestResultRefused(t *testing.T) {
	for _, text := range []string{``, `[]`, `{}`, `{"rows":[]}`, `{"rows":[{"name":""}]}`,
		`{"rows":[{"name":"a","value":"x"}]}`, `{"completed":3}`} {
		if _, err := decodeResult(strings.NewReader(text)); err == nil {
			t.Errorf("%q is a result", text)
		}
	}
	if _, err := decodeResult(strings.NewReader(`{"a":1}`)); !errors.Is(err, errNoRows) {
		t.Errorf("a file of something else: %v", err)
	}
}

func FuzzResult(f *testing.F) {
	f.Add(`{"rows":[{"name":"a","unit":"ms","value":2,"samples":[1,2,3,4]}],"flags":{"x":"y"},"distributions_ms":{"ttft":[1]}}`)
	f.Add(`{"request_throughput":1.2,"mean_ttft_ms":5}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := decodeResult(strings.NewReader(text))
		if err != nil {
			return
		}
		other, _ := decodeResult(strings.NewReader(text))
		c, err := Compare([]*Result{r, other}, ShortNames(2), CompareOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range c.Lines {
			if v := line.Cells[1].Verdict; v == Better || v == Worse {
				t.Fatalf("a result is %s than itself: %+v", v, line)
			}
		}
		if err := c.Print(io.Discard); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Plot(&out, []*Result{r, other}, ShortNames(2)); err == nil {
			wellFormed(t, out.Bytes())
		}
	})
}

// wellFormed fails unless the text is XML to its end, with numbers where
// pixels belong.
func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range element.Attr {
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Fatalf("%s has %s=%q", element.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}

func TestPlots(t *testing.T) {
	served := fixed("serve")
	sampleReport().Fill(served)
	served.Model.Name = `<&"> model`
	empty := fixed("serve")
	empty.set("distributions_ms", map[string][]float64{})
	for name, c := range map[string]struct {
		results []*Result
		want    []string
	}{
		"latencies": {[]*Result{served}, []string{"Time to first token", "&lt;&amp;", "p50 200 · p99 396 ms",
			"prefers-color-scheme: dark", "milliseconds, logarithmic"}},
		"two latencies": {[]*Result{served, empty}, []string{"Inter-token latency"}},
		"nothing":       {[]*Result{empty}, []string{"not measured"}},
		"ratios":        {pair(), []string{"Ratio to A", "pp512", "1.2", "ratio, logarithmic", "fill good", "fill bad"}},
	} {
		var out bytes.Buffer
		if err := Plot(&out, c.results, ShortNames(len(c.results))); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wellFormed(t, out.Bytes())
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in the picture", name, want)
			}
		}
	}
	if err := Plot(io.Discard, pair()[:1], []string{"A"}); err == nil {
		t.Error("one result without distributions was drawn")
	}
}

func TestLogScale(t *testing.T) {
	s := newLogScale(1, 1000, 0, 100)
	if s.at(s.low) != 0 || !near(s.at(s.high), 100) || !near(s.at(math.Sqrt(s.low*s.high)), 50) {
		t.Errorf("%+v: %g %g", s, s.at(s.low), s.at(s.high))
	}
	for _, c := range [][2]float64{{1, 1000}, {1, 1}, {0, 0}, {0.8, 1.25}, {3e-7, 5e9}, {7, 7.01}, {-5, 3}} {
		s := newLogScale(c[0], c[1], 0, 100)
		ticks := s.ticks()
		if len(ticks) < 2 || len(ticks) > 8 || !slices.IsSorted(ticks) || ticks[0] < s.low || ticks[len(ticks)-1] > s.high {
			t.Errorf("from %g to %g: ticks %v", c[0], c[1], ticks)
		}
	}
}

func TestShortNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 12.345: "12.3", 123.4: "123", 12345: "12345", 2.5e7: "2.5e+07",
		0.00012: "0.00012"} {
		if got := short(v); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
}

// Rows of JSON that another program wrote keep their order and samples.
func TestRowsDecode(t *testing.T) {
	r := fixed("engine")
	r.Add("pp", "tok/s", 1, 2, 3)
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeResult(bytes.NewReader(raw))
	if err != nil || !slices.Equal(back.Rows[0].Samples, []float64{1, 2, 3}) || !near(back.Rows[0].Value, 2) {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestCPUName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpuinfo")
	if err := os.WriteFile(path, []byte("processor\t: 0\nmodel name\t: Fast CPU: 9000\nmodel name\t: other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := cpuName(path); got != "Fast CPU: 9000" {
		t.Errorf("%q", got)
	}
	if got := cpuName(path + "x"); got == "" {
		t.Error("no name at all")
	}
}
