package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/api"
	"weir/internal/jsonfault"
	"weir/router/rollout"
)

// OutcomeFunc takes in what came of an answer.
type OutcomeFunc func(*rollout.Signal) error

// OutcomesPath is where it is told.
const OutcomesPath = "/v1/outcomes"

// outcome is its body: the id of an answer, and one or several of what may be told of it.
type outcome struct {
	ID         string `json:"id"`
	Tenant     string `json:"tenant"` // on the admin listener
	Conversion any    `json:"conversion"`
	Thumbs     any    `json:"thumbs"`
	Label      any    `json:"label"`
}

const (
	maxOutcomeBytes = 4 << 10
	outcomeExample  = `{"id": "chatcmpl-…", "thumbs": "up"}`
)

// ReadOutcomes reads the body of a request that tells what came of an answer. The tenant is
// the caller's; "" takes that of the body.
func ReadOutcomes(body []byte, tenant string) ([]rollout.Signal, *api.Error) {
	if len(body) > maxOutcomeBytes {
		return nil, api.Refuse("invalid_value", fmt.Sprintf("the body has %d bytes, limit %d; send one answer's outcome, such as %s", len(body), maxOutcomeBytes, outcomeExample))
	}
	o, err := parseOutcome(body, tenant == "")
	if err != nil {
		return nil, api.Refuse("invalid_value", fmt.Sprintf("the body is no outcome: %v; send such as %s", err, outcomeExample))
	}
	if o.ID == "" || len(o.ID) > MaxRequestIDBytes+MaxRequestIDBytes {
		return nil, api.Refuse("invalid_value", fmt.Sprintf("id is %.40q; it must be the id of an answer, or its x-request-id", o.ID))
	}
	if tenant == "" {
		tenant = o.Tenant
	}
	var list []rollout.Signal
	for _, one := range []struct {
		kind  rollout.SignalKind
		value any
	}{{rollout.Conversion, o.Conversion}, {rollout.Thumbs, o.Thumbs}, {rollout.Label, o.Label}} {
		if one.value == nil {
			continue
		}
		value, ok := worth(one.value)
		if !ok {
			return nil, api.Refuse("invalid_value", fmt.Sprintf("%s is %.40v; it must be true or false, up or down, or a number from 0 to 1", one.kind, one.value))
		}
		list = append(list, rollout.Signal{ID: o.ID, Tenant: tenant, Kind: one.kind, Value: value})
	}
	if len(list) == 0 {
		return nil, api.Refuse("invalid_value", "nothing is told of the answer; give conversion, thumbs or label")
	}
	return list, nil
}

// parseOutcome reads a JSON object whose fields are known, each of them once. Only callers of the admin listener may name a tenant.
func parseOutcome(body []byte, anyTenant bool) (o outcome, err error) {
	if err := json.Unmarshal(body, &o); err != nil {
		return o, jsonfault.Describe(err, body)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return o, errors.New("it must be a JSON object")
	}
	known := []string{"id", "conversion", "thumbs", "label"}
	if anyTenant {
		known = append(known, "tenant")
	}
	seen := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		name, _ := token.(string)
		switch {
		case err != nil:
			return o, jsonfault.Describe(err, body)
		case name == "tenant" && !anyTenant:
			return o, errors.New(`there is no field "tenant" here: the tenant is that of the caller's key`)
		case !slices.Contains(known, name):
			return o, fmt.Errorf("there is no field %.40q; known are %s", name, strings.Join(known, ", "))
		case seen[name]:
			return o, fmt.Errorf("%q is given twice; which one counts is not defined", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return o, jsonfault.Describe(err, body)
		}
	}
	return o, nil
}

// worth of what is told, from 0 to 1.
func worth(value any) (float64, bool) {
	switch v := value.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case float64:
		return v, v >= 0 && v <= 1
	case string:
		switch v {
		case "up":
			return 1, true
		case "down":
			return 0, true
		}
	}
	return 0, false
}

// OutcomeFault is an error of an OutcomeFunc as callers read it.
func OutcomeFault(err error) *api.Error {
	if errors.Is(err, rollout.ErrBusyJournal) {
		return api.Refuse("store_unavailable", rollout.ErrBusyJournal.Error()+"; tell it again in a moment") // the rest names the database
	}
	return api.Refuse("answer_not_found", err.Error()+"; outcomes count for the last answers of rollouts that are under way: with a store on any server that is on it, "+
		"except for answers of the last second before a server was killed, and without one on the server that gave the answer")
}
