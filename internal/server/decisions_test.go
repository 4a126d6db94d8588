package server_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/router/fleet"
)

// asked are questions of all types, with labels of which one begins another.
const asked = `"input":"I was charged twice.","questions":[{"type":"predicate","name":"angry","instructions":"The customer is angry."},` +
	`{"type":"choice","instructions":"When?","choices":[{"value":"urgent"},{"value":"urgent today"},{"value":true}]},` +
	`{"type":"score","instructions":"How?","levels":[{"label":"1"},{"label":"2"},{"label":"10"}]}]`

// decided are the answers of a body to asked, and the tokens that it counts.
func decided(t *testing.T, text string) (answers []any, tokens int) {
	t.Helper()
	var a struct {
		Answers []any
		Usage   struct {
			Input int `json:"input_tokens"`
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Answers) != 3 || a.Usage.Input == 0 || a.Usage.Total != a.Usage.Input {
		t.Fatalf("%v in %s", err, text)
	}
	return a.Answers, a.Usage.Input
}

// A server, a router before it and lines of a batch give the same answers, and each is counted once, for the tenant that asked. What the
// tenant has left of its tokens holds for the whole of a call.
func TestDecisionsTakeEveryWay(t *testing.T) {
	replica, key, operator := servertest.Limited(t, func(c *configs.Config) {
		c.Tenants[0].Limits.RequestsPerMinute, c.Tenants[0].Limits.DailyTokens = 0, 1000
	})
	own := servertest.NewKey(t, replica.StoreURL, keychain.Request{Tenant: "ops", Label: "router"})
	router := servertest.Start(t, func(c *configs.Config) {
		routedTo("round_robin", replica.API)(c)
		c.Store.URL = replica.StoreURL
		c.Models[0].Replicas[0].APIKey = fleet.Key(own)
	})
	const path = "/v1/decisions"
	var want []any
	total := 0
	for i, url := range []string{replica.API, router.API} {
		status, _, text := replica.As(key, http.MethodPost, url+path, "{"+asked+"}")
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		got, tokens := decided(t, text)
		if i == 0 {
			want = got
		}
		if total += tokens; !reflect.DeepEqual(got, want) {
			t.Errorf("by the router %v, want %v", got, want)
		}
	}
	id := replica.BatchFor(key, path, fmt.Sprintf(`{"custom_id":"a","method":"POST","url":%q,"body":{%s}}`+"\n", path, asked))
	b := replica.AwaitBatch(key, id, completed)
	_, file := replica.CallJSON(http.MethodGet, fmt.Sprintf("/v1/files/%v/content", b["output_file_id"]), key, "application/json", http.NoBody)
	var line struct {
		Response struct{ Body json.RawMessage }
	}
	raw, err := json.Marshal(file) // one line of JSON is an answer in JSON
	if err == nil {
		err = json.Unmarshal(raw, &line)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, tokens := decided(t, string(line.Response.Body))
	if total += tokens; !reflect.DeepEqual(got, want) {
		t.Errorf("of a batch %v, want %v", got, want)
	}
	many := strings.Replace(asked, `"questions":[`, `"questions":[`+strings.Repeat(`{"type":"predicate","instructions":"It is so."},`, 100), 1)
	if status, code, message := replica.PostWithKey(key, path, "{"+many+"}"); status != http.StatusTooManyRequests {
		t.Errorf("more than the tenant has left: %d %s %s", status, code, message)
	}
	if err := router.End(); err != nil { // it has written all that it counted
		t.Fatal(err)
	}
	_, _, text := replica.As(operator, http.MethodGet, replica.Admin+"/admin/usage?tenant=acme", "")
	var u struct {
		Total struct {
			Requests int `json:"requests"`
			Prompt   int `json:"input_tokens"`
			Output   int `json:"output_tokens"`
		} `json:"total"`
	}
	if err := json.Unmarshal([]byte(text), &u); err != nil || u.Total.Requests != 3 || u.Total.Prompt != total || u.Total.Output != 0 {
		t.Errorf("%v: counted %s, want 3 requests of %d tokens", err, text, total)
	}
}

// TestDecisionsAreCalibrated: the setting corrects the probabilities by Platt's formula, of a record of its own as well, and a request may ask for
// those of the model.
func TestDecisionsAreCalibrated(t *testing.T) {
	settings := []string{"predicate=2.5", "predicate.bias=-0.75", "choice=4"}
	s := servertest.Start(t, func(c *configs.Config) {
		c.Model.Calibration = settings
		m := configs.NewServedModel("own", configs.BuiltinPath)
		m.Settings = []configs.ModelSetting{{Key: configs.CalibrationKey, Value: "predicate=0.5"}}
		c.Model.Path, c.Models = configs.BuiltinPath, []configs.ServedModel{m}
	})
	ask := func(model, more string) (yes float64, choices []float64) {
		t.Helper()
		status, _, text := s.As("", http.MethodPost, s.API+"/v1/decisions", fmt.Sprintf(`{"model":%q,%s%s}`, model, more, asked))
		var a struct {
			Answers []struct {
				Probability   float64
				Probabilities []struct{ Probability float64 }
			}
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
			t.Fatalf("%d %v %s", status, err, text)
		}
		for _, p := range a.Answers[1].Probabilities {
			choices = append(choices, p.Probability)
		}
		return a.Answers[0].Probability, choices
	}
	raw, choices := ask(configs.EmbeddedName, `"calibrate":false,`)
	odds := math.Log(raw / (1 - raw))
	for i, tc := range []struct {
		model string
		want  float64
	}{{configs.EmbeddedName, 1 / (1 + math.Exp(-(odds/2.5 - 0.75)))}, {"own", 1 / (1 + math.Exp(-odds/0.5))}} {
		got, list := ask(tc.model, "")
		if math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", tc.model, got, tc.want)
		}
		if i > 0 {
			continue
		}
		sum := 0.0
		for _, p := range choices {
			sum += math.Pow(p, 1./4)
		}
		for k, p := range choices {
			if want := math.Pow(p, 1./4) / sum; math.Abs(list[k]-want) > 1e-9 {
				t.Errorf("choice %d: %v, want %v", k, list[k], want)
			}
		}
	}
}
