package edge

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/router/rollout"
)

func TestReadOutcomes(t *testing.T) {
	list, fault := ReadOutcomes([]byte(`{"id": "chatcmpl-1", "conversion": true, "thumbs": "down", "label": 0.25}`), "acme")
	if fault != nil || len(list) != 3 || list[0].Value != 1 || list[1].Value != 0 || list[2].Value != 0.25 || list[2].Tenant != "acme" {
		t.Errorf("%+v %v", list, fault)
	}
	if list, fault = ReadOutcomes([]byte(`{"id": "x", "tenant": "other", "label": false}`), ""); fault != nil || list[0].Tenant != "other" {
		t.Errorf("for all tenants: %+v %v", list, fault)
	}
	for wrong, want := range map[string]string{
		`{"id": "x", "tenant": "other", "label": false}`: `no field "tenant" here`,
		`{"id": "x", "stars": 5}`:                        `no field "stars"; known are id, conversion, thumbs, label`,
		`{"id": "x", "ID": "y", "label": 1}`:             `no field "ID"`,
		`{"id": "x", "label": 0, "label": 1}`:            `"label" is given twice`,
		`[]`:                                             "it is a JSON array; it must be an object",
		`{"id": 5, "label": 1}`:                          "id is a JSON number; it must be a string",
		`{"id": "x", "label": 1} {}`:                     "invalid character",
		`null`:                                           "must be a JSON object",
	} {
		if list, fault := ReadOutcomes([]byte(wrong), "acme"); fault == nil || !strings.Contains(fault.Message, want) {
			t.Errorf("%s: %+v %v; want %q", wrong, list, fault, want)
		}
	}
	for _, wrong := range []string{``, `{}`, `[]`, `{"id": "x"}`, `{"thumbs": "up"}`, `{"id": "x", "thumbs": "sideways"}`, `{"id": "x", "label": 2}`,
		`{"id": "x", "label": true} {}`, `{"id": "x", "stars": 5}`} {
		if list, fault := ReadOutcomes([]byte(wrong), "acme"); fault == nil || fault.Status != 400 {
			t.Errorf("%s: %+v %v", wrong, list, fault)
		}
	}
}

// Callers are tenants: what an error of the store says of the database, its host and its user is not for them.
func TestOutcomeFaultsNameNoDatabase(t *testing.T) {
	fault := OutcomeFault(fmt.Errorf("%w: %w", rollout.ErrBusyJournal, errors.New("failed to connect to `user=weir database=weir`: 10.0.0.7:5432")))
	if fault.Code != "store_unavailable" || fault.Status != 503 || strings.Contains(fault.Message, "10.0.0.7") {
		t.Errorf("%+v", fault)
	}
}

func FuzzReadOutcomes(f *testing.F) {
	f.Add(`{"id": "chatcmpl-1", "conversion": true, "thumbs": "down", "label": 0.25}`)
	f.Fuzz(func(t *testing.T, body string) {
		list, fault := ReadOutcomes([]byte(body), "acme")
		for _, s := range list {
			if fault != nil || s.Value < 0 || s.Value > 1 || s.Kind > rollout.Label || s.Tenant != "acme" {
				t.Fatalf("%q: %+v", body, s)
			}
		}
	})
}
