package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"weir/router/deployment"
	"weir/router/rollout"
)

// deploymentWords are other words for keys of a deployment, beside the same in camel case.
var deploymentWords = map[string]string{
	"model_id": "model", "rollout": "rollout_policy",
	"kv_cache_bytes": "kv_cache_memory_bytes", "max_sequences": "max_num_seqs", "context_length": "max_model_len",
}

// weightKey is a model's share of the compute threads among the resources of a deployment.
const weightKey = "compute_weight"

// maxDeploymentDepth bounds how deep a body may nest.
const maxDeploymentDepth = 16

// ParseDeployment reads what a deployment asks for, from a JSON object: {"modelId", "version", "resources", "rolloutPolicy",
// "warm", "replicas", "nodeSelector", "affinity"}. Keys may be in camel case or have underscores. name stands before what is wrong.
func ParseDeployment(name string, spec []byte) (deployment.Spec, error) {
	s := deployment.Spec{}
	root, err := parseObject(name, spec)
	if err != nil {
		return s, err
	}
	if err := plainKeys(root, 0); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	d := &fileDecoder{sources: &Sources{}, name: name}
	place := deployment.Placement{}
	if err := d.record(root, "deployment", append(deploymentFields(&s), placementFields(&place)...)); err != nil {
		return s, err
	}
	if place.Replicas > 0 || len(place.NodeSelector) > 0 || len(place.Affinity) > 0 {
		s.Placement = &place
	}
	if err := s.Placement.Check(); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	if s.Model == "" {
		return s, fmt.Errorf("%s has no modelId; give the name that requests use", name)
	}
	if err := deployment.CheckVersion(s.Version); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// isDeployedName reports whether a name is one that a path of the admin listener can end with.
func isDeployedName(s string) bool { return isServedName(s) && path.Clean("/"+s) == "/"+s }

func deploymentFields(s *deployment.Spec) []field {
	return []field{
		{key: "model", binding: bindText(&s.Model, servedNameForm+", whose parts between slashes are neither empty nor . or ..", isDeployedName)},
		{key: "version", binding: bindText(&s.Version, "a version", anyText)},
		{key: "resources", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			if isNull(n) {
				return nil
			}
			var err error
			s.Resources, err = d.resources(n, path)
			return err
		}},
		{key: "rollout_policy", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			if s.Unchecked = n.Kind == yaml.ScalarNode && n.Value == deployment.UncheckedPolicy; s.Unchecked {
				return nil
			}
			var err error
			s.Policy, err = d.rolloutPolicy(n, path)
			return err
		}},
		{key: "warm", nested: func(d *fileDecoder, n *yaml.Node, path string) error { return d.warm(n, path, &s.Warm) }},
	}
}

// plainKeys puts the configuration's words in the place of others for all keys below a node.
func plainKeys(n *yaml.Node, depth int) error {
	if depth > maxDeploymentDepth {
		return fmt.Errorf("it nests deeper than %d levels", maxDeploymentDepth)
	}
	for i, item := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			item.Value = plainKey(item.Value)
			continue
		}
		if i > 0 && n.Kind == yaml.MappingNode && n.Content[i-1].Value == "node_selector" {
			continue // its keys are the servers'
		}
		if err := plainKeys(item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// plainKey is the key of maxNumSeqs, max_num_seqs or maxSequences: max_num_seqs.
func plainKey(key string) string {
	var b strings.Builder
	for i, r := range key {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	key = b.String()
	if word, ok := deploymentWords[key]; ok {
		return word
	}
	return key
}

// resources reads settings of the model, by the configuration's keys.
func (d *fileDecoder) resources(n *yaml.Node, path string) (map[string]string, error) {
	m := NewServedModel("", "")
	fields := slices.DeleteFunc(m.settingFields(), func(f field) bool { // what the model is belongs to its version
		return slices.ContainsFunc(modelKeys, func(key string) bool { return key == "model."+f.key })
	})
	fields = append(fields, field{key: weightKey, binding: bindInt(&m.ComputeWeight, 1, 1024, "")})
	if err := d.record(n, path, fields); err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		f := &fields[slices.IndexFunc(fields, func(f field) bool { return f.key == key })]
		values[key] = f.show()
	}
	return values, nil
}

// rolloutPolicy reads how a version takes over: immediate, canary, or what a plan has beside its model and its versions.
func (d *fileDecoder) rolloutPolicy(n *yaml.Node, path string) (*rollout.Plan, error) {
	plan := rollout.Plan{}
	switch {
	case isNull(n), n.Kind == yaml.ScalarNode && n.Value == "immediate":
		return nil, nil //nolint:nilnil // none is a policy
	case n.Kind == yaml.ScalarNode && n.Value == "canary":
	case n.Kind == yaml.MappingNode:
		if err := d.plan(n, path, &plan); err != nil {
			return nil, err
		}
	default:
		return nil, d.errorf(n, "%s is %.40q; it must be immediate, unchecked, canary, or an object with steps, gates, sticky, compare", path, n.Value)
	}
	plan.ID, plan.Model, plan.Stable, plan.Candidate = "id", "model", "stable", "candidate" // of the check alone
	plan, err := plan.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", d.where(n), path, err)
	}
	plan.ID, plan.Model, plan.Stable, plan.Candidate = "", "", "", ""
	return &plan, nil
}

// plan reads a plan, in the words of POST /v1/deployments.
func (d *fileDecoder) plan(n *yaml.Node, path string, plan *rollout.Plan) error {
	var value map[string]any
	if err := n.Decode(&value); err != nil {
		return d.errorf(n, "%s: %v", path, err)
	}
	for _, own := range []string{"id", "model", "stable", "candidate"} {
		if _, ok := value[own]; ok {
			return d.errorf(n, "unknown key %s.%s: the deployment says which model and which version", path, own)
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return d.errorf(n, "%s: %v", path, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(plan); err != nil {
		return d.errorf(n, "%s: %v", path, err)
	}
	return nil
}

// warm reads how many versions before stay in memory, or which versions do.
func (d *fileDecoder) warm(n *yaml.Node, path string, into *deployment.Warm) error {
	switch n.Kind {
	case yaml.ScalarNode:
		if isNull(n) {
			return nil
		}
		count, err := strconv.Atoi(n.Value)
		if err != nil || count < 0 || count > deployment.MaxWarm {
			return d.errorf(n, "%s is %.40q; it must be how many versions before stay in memory, 0 to %d, or a list of versions", path, n.Value, deployment.MaxWarm)
		}
		into.Previous = count
		return nil
	case yaml.SequenceNode:
	default:
		return d.errorf(n, "%s must be a number or a list of versions", path)
	}
	if len(n.Content) > deployment.MaxWarm {
		return d.errorf(n, "%s has %d versions, limit %d", path, len(n.Content), deployment.MaxWarm)
	}
	var errs []error
	for _, item := range n.Content {
		if err := deployment.CheckVersion(item.Value); err != nil || item.Kind != yaml.ScalarNode {
			errs = append(errs, d.errorf(item, "%s: %v", path, errors.Join(err, errors.New("each entry is a version"))))
			continue
		}
		into.Versions = append(into.Versions, item.Value)
	}
	return errors.Join(errs...)
}

// DeploymentJSON is a file in YAML or JSON as ParseDeployment reads it.
func DeploymentJSON(name string, data []byte) ([]byte, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s has %d bytes, limit %d", name, len(data), maxFileBytes)
	}
	root, err := parseDocument(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s is no mapping of keys to values; it needs modelId and version", name)
	}
	var value map[string]any
	if err := root.Decode(&value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return json.Marshal(value)
}

// Deployed is the record of a version that a deployment has made, with its own resources.
func Deployed(model, path, label string, resources map[string]string) ServedModel {
	m := NewServedModel(model, path)
	return m.Derived(label, resources)
}

// Derived is a version of the same file with the same settings, except for resources.
func (m ServedModel) Derived(label string, resources map[string]string) ServedModel {
	m.Version, m.Load, m.Aliases = label, LoadNever, nil
	m.Settings = slices.Clone(m.Settings)
	for _, key := range slices.Sorted(maps.Keys(resources)) {
		value := resources[key]
		if key == weightKey {
			m.ComputeWeight, _ = strconv.Atoi(value) // ParseDeployment has read it
			continue
		}
		i := slices.IndexFunc(modelKeys, func(k string) bool { return strings.HasSuffix(k, "."+key) })
		if i >= 0 { // another weir may know more settings
			m.Settings = slices.DeleteFunc(m.Settings, func(s ModelSetting) bool { return s.Key == modelKeys[i] })
			m.Settings = append(m.Settings, ModelSetting{modelKeys[i], value})
		}
	}
	return m
}

// CheckDeployed refuses a record that cannot stand beside what the configuration serves.
func (c Config) CheckDeployed(m ServedModel) error {
	for _, o := range append(c.ServedModels(), c.RoutedModels()...) {
		if o.Name != m.Name && slices.Contains(o.Aliases, m.Name) {
			return fmt.Errorf("%q is an alias of %q in the configuration; deploy %q, or another name", m.Name, o.Name, o.Name)
		}
	}
	return c.ForModel(m).validateBatch("resources: ")
}
