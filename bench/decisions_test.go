package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheLabelledDecisionsAreWhole(t *testing.T) {
	list, err := ReadDecisions(strings.NewReader(LabelledDecisions))
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []string{"", "{", `{"input":"x","questions":[]}`, `{"input":"x","questions":[{"type":"predicate"}]}`} {
		if _, err := ReadDecisions(strings.NewReader(broken)); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
	if len(list) < 10 {
		t.Errorf("%d lines", len(list))
	}
}

// The figures were worked out by hand: of four questions two are right, with the probabilities 0.9, 0.8, 0.7 and 0.6 of what is thought best.
func TestCalibrationOfDecisions(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model     string
			Questions []map[string]any
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &asked); err != nil || r.URL.Path != "/v1/decisions" || asked.Model != "m" || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("asked %s of %s: %v", body, r.URL, err)
		}
		for _, q := range asked.Questions {
			if q["expected"] != nil {
				t.Error("the server was told what is right")
			}
		}
		_, _ = io.WriteString(w, `{"answers":[{"type":"predicate","probability":0.9},{"type":"predicate","probability":0.8},
			{"type":"choice","probabilities":[{"value":"a","probability":0.3},{"value":true,"probability":0.7}]},
			{"type":"score","probabilities":[{"label":"l","value":0,"probability":0.6},{"label":"h","value":1,"probability":0.4}]}]}`)
	}))
	defer server.Close()
	list, err := ReadDecisions(strings.NewReader(`{"input":"x","questions":[{"expected":true},{"expected":false},{"expected":true},{"expected":"h"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := MeasureDecisions(context.Background(), &Target{BaseURL: server.URL, Model: "m", APIKey: "k"}, list, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := m.Calibration()
	brier := (0.02 + 1.28 + 0.18 + 0.72) / 4
	ece := (0.1 + 0.8 + 0.3 + 0.6) / 4
	if c.Questions != 4 || c.Accuracy.Value != 0.5 || math.Abs(c.Brier.Value-brier) > 1e-9 || math.Abs(c.ECE-ece) > 1e-9 || len(c.Bins) != 4 {
		t.Errorf("%+v; want accuracy 0.5, Brier %v, ECE %v", c, brier, ece)
	}
	var page bytes.Buffer
	if err := WriteCalibrationMarkdown(&page, c); err != nil || !strings.Contains(page.String(), "| 0.8 to 0.9 | 1 | 0.900 | 1.000 |") {
		t.Errorf("%v: %s", err, page.String())
	}
	list[0].Questions[2]["expected"] = "c"
	if _, err := MeasureDecisions(context.Background(), &Target{BaseURL: server.URL, Model: "m", APIKey: "k"}, list, false, nil); err == nil {
		t.Error("an answer that no option is was measured")
	}
}
