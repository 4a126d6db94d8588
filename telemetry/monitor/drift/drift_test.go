package drift

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// The distances are those of scipy and numpy.
func TestDistances(t *testing.T) {
	data, err := os.ReadFile("testdata/distances.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Reference, Now []int64
		PSI, JS, KS    float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		got := measure(c.Reference, c.Now, true)
		for name, pair := range map[string][2]float64{"PSI": {got.PSI, c.PSI}, "JS": {got.JS, c.JS}, "KS": {got.KS, c.KS}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9*(1+math.Abs(pair[1])) {
				t.Errorf("case %d: %s is %v, want %v", i, name, pair[0], pair[1])
			}
		}
	}
	if len(cases) != 12 {
		t.Errorf("%d cases", len(cases))
	}
	if d := measure([]int64{5, 5}, []int64{0, 0}, true); d != (Distance{}) {
		t.Errorf("nothing is %v away", d)
	}
}

// A profile's bins hold about equal shares, a constant's neighbours are told from it,
// and what is heavy at the upper end is parted from the rest.
func TestProfileOfNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var normal, mostlyOne []float64
	for i := range 10_000 {
		normal = append(normal, rng.NormFloat64())
		one := 1.0
		if i%20 == 0 {
			one = 0
		}
		mostlyOne = append(mostlyOne, one)
	}
	normal[5] = math.NaN()
	c := Numbers("n", normal, 10)
	if len(c.Counts) != 10 || c.Missing != 1 || c.Min >= -3 || c.Max <= 3 {
		t.Errorf("%+v", c)
	}
	for i, n := range c.Counts {
		if n < 990 || n > 1010 {
			t.Errorf("bin %d has %d of 10000", i, n)
		}
	}
	if c := Numbers("one", mostlyOne, 10); len(c.Counts) != 2 || c.Counts[0] != 500 || c.Counts[1] != 9500 {
		t.Errorf("mostly one: %+v", c)
	}
	if c := Numbers("constant", []float64{3, 3, 3}, 10); bin(c.Edges, 3) != 1 || bin(c.Edges, 2.999) != 0 || bin(c.Edges, 3.001) != 2 {
		t.Errorf("constant: %+v", c)
	}
	for _, values := range [][]float64{nil, {math.NaN()}, {math.Inf(1), math.Inf(-1), 0}} {
		c := Numbers("odd", values, 10)
		p := Profile{Format: 1, Features: []Column{c}}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%v: %v", values, err)
		}
		if _, err := ParseProfile(text); err != nil {
			t.Errorf("%v: %v", values, err)
		}
	}
}

func testProfile(t testing.TB) *Profile {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var ages, scores []float64
	var cities []string
	for range 5000 {
		ages = append(ages, 40+10*rng.NormFloat64())
		scores = append(scores, rng.Float64())
		cities = append(cities, [...]string{"Rome", "Bonn", "Rome", "Oslo", ""}[rng.IntN(5)])
	}
	p := &Profile{Format: 1, Model: "credit", Version: "3", Rows: 5000,
		Features: []Column{Numbers("age", ages, 10), Texts("city", cities)}, Scores: []Column{Numbers("output", scores, 10)}}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = ParseProfile(text); err != nil {
		t.Fatal(err)
	}
	return p
}

// feed counts rows of ages around mean.
func feed(m *Monitor, rng *rand.Rand, rows int, mean float64) {
	for range rows {
		m.Number(0, mean+10*rng.NormFloat64())
		m.Text(1, [...]string{"Rome", "Bonn", "Rome", "Oslo", ""}[rng.IntN(5)])
		m.Number(2, rng.Float64())
		m.Rows(1)
	}
}

// A drift begins and ends after three windows in a row, is not made by one, wants rows
// enough, and names only the column that drifts.
func TestHysteresis(t *testing.T) {
	now := time.Unix(1000, 0)
	m := NewMonitor(testProfile(t), Rules{Window: time.Minute}, now)
	rng := rand.New(rand.NewPCG(3, 4))
	window := func(rows int, mean float64) bool {
		feed(m, rng, rows, mean)
		now = now.Add(time.Minute)
		return m.Tick(now)
	}
	states := func() string {
		var list []string
		for _, c := range m.Report().Columns {
			list = append(list, c.State)
		}
		return strings.Join(list, " ")
	}
	if window(999, 40) || states() != "waiting waiting waiting" {
		t.Fatalf("a window of 999 rows was judged: %s", states())
	}
	if !window(1, 40) {
		t.Fatal("a window of 1000 rows was not judged")
	}
	for i, c := range []struct {
		mean float64
		want string
	}{
		{40, "steady"}, {55, "steady"}, {55, "steady"}, {40, "steady"}, // two are no drift
		{55, "steady"}, {55, "steady"}, {55, "drifting"}, {40, "drifting"}, {40, "drifting"}, {55, "drifting"},
		{40, "drifting"}, {40, "drifting"}, {40, "steady"},
	} {
		if !window(2000, c.mean) {
			t.Fatal("not judged")
		}
		if got := states(); got != c.want+" steady steady" {
			t.Fatalf("window %d is %s, want %s", i, got, c.want)
		}
	}
	r := m.Report()
	if r.Rows != 2000 || r.Waiting != 0 || r.Drifting != 0 || len(r.Columns[0].History) != 14 {
		t.Errorf("%+v", r)
	}
	if share := r.Columns[1].Missing; math.Abs(share.Now-0.2) > 0.05 || math.Abs(share.Reference-0.2) > 0.05 {
		t.Errorf("the missing cities are %+v", share)
	}
}

// More values that are missing are a drift.
func TestMissingValuesDrift(t *testing.T) {
	now := time.Unix(1000, 0)
	m := NewMonitor(testProfile(t), Rules{Window: time.Minute, Windows: 1}, now)
	for i := range 1000 {
		x := math.NaN()
		if i%3 == 0 {
			x = 40
		}
		m.Number(0, x)
		m.Text(1, "Atlantis")
		m.Rows(1)
	}
	m.Tick(now.Add(time.Minute))
	r := m.Report()
	if r.Columns[0].State != "drifting" || r.Columns[0].Missing.Now < 0.6 || r.Columns[1].State != "drifting" {
		t.Errorf("%+v", r.Columns)
	}
	if bins := r.Columns[1].Bins; bins[len(bins)-1].Label != "others" || bins[len(bins)-1].Now != 1 {
		t.Errorf("an unknown category is in %+v", bins)
	}
}

// Counting from many goroutines while windows end loses next to nothing.
func TestCountingWhileWindowsEnd(t *testing.T) {
	began := time.Unix(0, 0)
	m := NewMonitor(testProfile(t), Rules{Window: time.Nanosecond, MinRows: 1}, began)
	var wg sync.WaitGroup
	const each = 20_000
	for g := range 4 {
		wg.Go(func() { feed(m, rand.New(rand.NewPCG(uint64(g), 0)), each, 40) })
	}
	judged := int64(0)
	for i := 1; ; i++ {
		if m.Tick(began.Add(time.Duration(i))) {
			judged += m.Report().Rows
		}
		if r := m.Report(); judged+r.Waiting >= 4*each*99/100 {
			break
		}
	}
	wg.Wait()
}

// Handler gives a page with a plot per column, well formed, and JSON to programs.
func TestHandler(t *testing.T) {
	m := NewMonitor(testProfile(t), Rules{Window: time.Minute}, time.Unix(0, 0))
	feed(m, rand.New(rand.NewPCG(1, 1)), 2000, 55)
	m.Tick(time.Unix(60, 0))
	m.profile.Features[0].Name = "<script>" // whatever a profile names
	h := Handler(func() []Report { return []Report{m.Report()} })
	get := func(url, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	html := get("/admin/drift", "text/html").Body.String()
	if n := strings.Count(html, "<svg"); n != 6 {
		t.Errorf("%d plots, want 6", n)
	}
	if strings.Contains(html, "<script>") {
		t.Error("a name is not escaped")
	}
	for svg := range strings.SplitSeq(html, "<svg") {
		if end := strings.Index(svg, "</svg>"); end > 0 {
			d := xml.NewDecoder(strings.NewReader("<svg" + svg[:end+6]))
			var err error
			for err == nil {
				_, err = d.Token()
			}
			if err != io.EOF { //nolint:errorlint // the decoder's own
				t.Fatalf("%v in <svg%.80s", err, svg)
			}
		}
	}
	var answer struct{ Models []Report }
	if err := json.Unmarshal(get("/admin/drift", "*/*").Body.Bytes(), &answer); err != nil || len(answer.Models) != 1 || answer.Models[0].Rows != 2000 {
		t.Errorf("%+v, %v", answer, err)
	}
	if text := get("/admin/drift?model=other", "").Body.String(); strings.Contains(text, "credit") {
		t.Errorf("another model's page is %s", text)
	}
}

// A profile that parses can be counted against.
func FuzzProfile(f *testing.F) {
	text, _ := json.Marshal(testProfile(f))
	f.Add(text)
	f.Add([]byte(`{"weir_profile":1,"rows":0,"features":[{"name":"a","counts":[1],"missing":0,"min":0,"max":0}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseProfile(data)
		if err != nil {
			return
		}
		m := NewMonitor(p, Rules{MinRows: 1}, time.Unix(0, 0))
		for i := range m.columns {
			m.Text(i, "x")
			m.Number(i, 1)
		}
		m.Rows(1)
		m.Tick(time.Unix(1e6, 0))
		for _, c := range m.Report().Columns {
			if math.IsNaN(c.Distance.PSI) || math.IsInf(c.Distance.PSI, 0) || c.Distance.JS > 1 || c.Distance.KS > 1 {
				t.Errorf("%+v", c.Distance)
			}
		}
	})
}

func TestProfileErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{}`, "weir_profile is 0"},
		{`{"weir_profile":1,"colour":1}`, "colour"},
		{`{"weir_profile":1} x`, "behind its end"},
		{`{"weir_profile":1,"features":[{"name":"a","edges":[2,1],"counts":[1,1,1]}]}`, "edges are finite and increase"},
		{`{"weir_profile":1,"features":[{"name":"a","edges":[1],"counts":[1]}]}`, "1 counts for 2 bins"},
		{`{"weir_profile":1,"features":[{"name":"a","edges":[1],"categories":["x"],"counts":[1,1]}]}`, "one of them"},
		{`{"weir_profile":1,"features":[{"name":"a","counts":[-1]}]}`, "count 0 is -1"},
		{`{"weir_profile":1,"features":[{"name":"a","counts":[1]},{"name":"a","counts":[1]}]}`, "listed twice"},
	} {
		if _, err := ParseProfile([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// Counting a value takes nanoseconds and allocates nothing.
func BenchmarkNumber(b *testing.B) {
	m := NewMonitor(testProfile(b), Rules{}, time.Unix(0, 0))
	b.ReportAllocs()
	x := 0.0
	for b.Loop() {
		m.Number(0, x)
		if x += 0.37; x > 80 {
			x = 0
		}
	}
}

func BenchmarkText(b *testing.B) {
	m := NewMonitor(testProfile(b), Rules{}, time.Unix(0, 0))
	b.ReportAllocs()
	for b.Loop() {
		m.Text(1, "Oslo")
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := NewMonitor(testProfile(t), Rules{}, time.Unix(0, 0))
	if n := testing.AllocsPerRun(100, func() { m.Number(0, 40); m.Text(1, "Oslo"); m.Rows(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
