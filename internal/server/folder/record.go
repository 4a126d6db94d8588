package folder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"weir/configs"
	"weir/internal/console"
	"weir/router/registry"
)

// What the record of a version in the models folder says is applied where the version is served: its
// approval, its sampling defaults.

// Servable refuses a version that may not be served.
func Servable(c configs.Config, v *registry.Version, ref registry.Ref) error {
	if c.Registry.RequireApproval && (v.Record.Approval == nil || v.Record.Approval.By == "") {
		return &console.UsageError{Err: fmt.Errorf("%s (%s) has no approval, and registry.require_approval is set", ref, ShortDigest(v.Digest.String())),
			Hint: "import it again with --approved-by NAME, or name a version that is approved (weir models show)"}
	}
	return nil
}

// Unapproved refuses a file that is no version, and so has no approval.
func Unapproved(c configs.Config, path string) error {
	if !c.Registry.RequireApproval || path == "" || path == configs.BuiltinPath {
		return nil
	}
	return &console.UsageError{Err: fmt.Errorf("%s is a file, which has no approval, and registry.require_approval is set", path),
		Hint: "bring it into the models folder: weir models import " + path + " NAME:TAG --approved-by WHO"}
}

// DefaultsOf are the fields that a version's record gives to requests without them.
func DefaultsOf(v *registry.Version) (list []configs.ModelSetting) {
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

// TakeVersion gives a record the files of a version and what its record says.
func TakeVersion(m *configs.ServedModel, v *registry.Version) {
	m.Path, m.Defaults = v.Path(), DefaultsOf(v)
	m.OwnSafety = string(v.Record.Safety)
	templates := v.Paths(registry.Template)
	if own := func(s configs.ModelSetting) bool { return s.Key == configs.ChatTemplateKey }; len(templates) > 0 && !slices.ContainsFunc(m.Settings, own) {
		m.Settings = append(slices.Clip(m.Settings), configs.ModelSetting{Key: configs.ChatTemplateKey, Value: templates[0]})
	}
}
