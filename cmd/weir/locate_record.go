package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	"weir/configs"
	"weir/router/registry"
)

// What the record of a version in the models folder says is applied where the version is served: its
// approval, its sampling defaults.

// servable refuses a version that may not be served.
func servable(c configs.Config, v *registry.Version, ref registry.Ref) error {
	if c.Registry.RequireApproval && (v.Record.Approval == nil || v.Record.Approval.By == "") {
		return &usageError{fmt.Errorf("%s (%s) is approved by nobody, and registry.require_approval is set", ref, shortDigest(v.Digest.String())),
			"import it anew with --approved-by NAME, or name a version that is approved: weir models show tells"}
	}
	return nil
}

// unapproved refuses a file that is no version, and so has no approval.
func unapproved(c configs.Config, path string) error {
	if !c.Registry.RequireApproval || path == "" || path == configs.BuiltinPath {
		return nil
	}
	return &usageError{fmt.Errorf("%s is a file, which nobody can have approved, and registry.require_approval is set", path),
		"bring it into the models folder: weir models import " + path + " NAME:TAG --approved-by WHO"}
}

// defaultsOf are the fields that a version's record gives to requests without them.
func defaultsOf(v *registry.Version) (list []configs.ModelSetting) {
	s := v.Record.Sampling
	if s == nil {
		return nil
	}
	number := func(name string, value *float64) {
		if value != nil {
			list = append(list, configs.ModelSetting{Key: name, Value: strconv.FormatFloat(*value, 'g', -1, 64)})
		}
	}
	count := func(name string, value *int) {
		if value != nil {
			list = append(list, configs.ModelSetting{Key: name, Value: strconv.Itoa(*value)})
		}
	}
	text := func(name string, value any) {
		if raw, err := json.Marshal(value); err == nil { // texts always have a JSON form
			list = append(list, configs.ModelSetting{Key: name, Value: string(raw)})
		}
	}
	number("temperature", s.Temperature)
	number("top_p", s.TopP)
	count("top_k", s.TopK)
	number("min_p", s.MinP)
	number("repetition_penalty", s.RepeatPenalty)
	count("max_tokens", s.MaxTokens)
	if len(s.Stop) > 0 {
		text("stop", s.Stop)
	}
	if s.System != "" {
		text("system", s.System)
	}
	return list
}
