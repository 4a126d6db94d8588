package configs

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v4"

	"weir/router/deployment"
)

// ownLabels are those that a server has by itself, and what says their values.
var ownLabels = map[string]string{"region": "--region", "arch": "the machine", "isa": "the machine", "memory-mib": "--model-memory-bytes"}

// bindLabels takes a server's labels.
func bindLabels(p *[]string) binding {
	b := bindList(p, "KEY=VALUE")
	set := b.set
	b.set = func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok && s != "" {
			return invalidValue("has no =")
		}
		if by, own := ownLabels[key]; own {
			return invalidValue(fmt.Sprintf("is refused, as the server has the label %s by itself, from %s", key, by))
		}
		if s != "" {
			if err := deployment.CheckLabel(key, value); err != nil {
				return invalidValue("is refused: " + err.Error())
			}
		}
		return set(s)
	}
	return b
}

func isBaseURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// placementFields bind where a deployment runs, in the words of Kubernetes. What is in p counts where some of them is there.
func placementFields(p *deployment.Placement) []field {
	return []field{
		{key: "replicas", binding: bindInt(&p.Replicas, 1, deployment.MaxReplicas, "")},
		{key: "node_selector", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			if isNull(n) {
				return nil
			}
			var err error
			p.NodeSelector, err = d.labels(n, path)
			return err
		}},
		{key: "affinity", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			if isNull(n) {
				return nil
			}
			return d.inside(n, path, []string{"node_affinity", "required_during_scheduling_ignored_during_execution"}, func(n *yaml.Node, path string) error {
				err := d.record(n, path, []field{{key: "node_selector_terms", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
					return d.records(n, path, func(n *yaml.Node, path string) error {
						var t deployment.SelectorTerm
						err := d.record(n, path, []field{{key: "match_expressions", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
							return d.records(n, path, func(n *yaml.Node, path string) error {
								r := deployment.Requirement{}
								err := d.record(n, path, requirementFields(&r))
								t = append(t, r)
								return err
							})
						}}})
						p.Affinity = append(p.Affinity, t)
						return err
					})
				}}})
				if err == nil && len(p.Affinity) == 0 { // it would run everywhere
					err = d.errorf(n, "%s.node_selector_terms needs at least one term, such as {matchExpressions: [{key: region, operator: Exists}]}; leave out affinity for all servers", path)
				}
				return err
			})
		}},
	}
}

// inside reads mappings within mappings, each of which has one key.
func (d *fileDecoder) inside(n *yaml.Node, path string, keys []string, read func(n *yaml.Node, path string) error) error {
	if len(keys) == 0 {
		return read(n, path)
	}
	return d.record(n, path, []field{{key: keys[0], nested: func(d *fileDecoder, n *yaml.Node, path string) error {
		return d.inside(n, path, keys[1:], read)
	}}})
}

func requirementFields(r *deployment.Requirement) []field {
	return []field{
		{key: "key", binding: bindText(&r.Key, "a label's key", anyText)},
		{key: "operator", binding: bindChoice(&r.Operator, deployment.Operators())},
		{key: "values", binding: bindList(&r.Values, "a label's value")},
	}
}

// labels reads a mapping of labels.
func (d *fileDecoder) labels(n *yaml.Node, path string) (map[string]string, error) {
	if n.Kind != yaml.MappingNode {
		return nil, d.errorf(n, "%s must be a mapping of labels to values, such as {region: eu}", path)
	}
	if len(n.Content) == 0 {
		return nil, nil //nolint:nilnil // as if it were not there
	}
	labels := make(map[string]string)
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			errs = append(errs, d.errorf(value, "%s.%s must be a text", path, key.Value))
			continue
		}
		if _, twice := labels[key.Value]; twice {
			errs = append(errs, d.errorf(key, "%s.%s is there twice", path, key.Value))
		}
		if err := deployment.CheckLabel(key.Value, value.Value); err != nil {
			errs = append(errs, d.errorf(key, "%s: %v", path, err))
		}
		labels[key.Value] = value.Value
	}
	return labels, errors.Join(errs...)
}
