package deployment

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Placement says how many servers have a part in a model, and which may, in the words of Kubernetes's pods and nodes.
type Placement struct {
	Replicas     int               `json:"replicas,omitempty"`      // servers with a part; 0: all that may
	NodeSelector map[string]string `json:"node_selector,omitempty"` // labels that a server has
	Affinity     []SelectorTerm    `json:"affinity,omitempty"`      // one of them holds, too; none: any server
}

// SelectorTerm holds where each of its requirements does; one without requirements never holds.
type SelectorTerm []Requirement

// Requirement is what a label of a server is.
type Requirement struct {
	Key      string   `json:"key"`
	Operator Operator `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// Operator compares a label with values.
type Operator string

// The operators, as Kubernetes's node affinity has them. NotIn holds for a label that is not there, too.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt" // whole numbers
	Lt           Operator = "Lt"
)

// Operators lists them all.
func Operators() []string {
	return []string{string(In), string(NotIn), string(Exists), string(DoesNotExist), string(Gt), string(Lt)}
}

// Bounds of placements and labels.
const (
	// MaxReplicas is how many servers may have a part in a model.
	MaxReplicas     = 1000
	maxTerms        = 16
	maxRequirements = 16
	maxValues       = 64
	// MaxLabels is how many labels a server has.
	MaxLabels     = 64
	maxLabelBytes = 253
)

// CheckLabel refuses what is no label of a server: a key such as region or example.com/gpu, and a value, which may be empty.
func CheckLabel(key, value string) error {
	plain := func(text string, also string) bool {
		return !strings.ContainsFunc(text, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(also, r)
		})
	}
	prefix, name, prefixed := strings.Cut(key, "/")
	switch {
	case key == "" || len(key) > maxLabelBytes || !plain(key, "-_./"):
		return fmt.Errorf("the label's key %.80q must be 1 to %d letters, digits, or any of - _ . /", key, maxLabelBytes)
	case prefixed && (prefix == "" || name == "" || strings.Contains(name, "/")):
		return fmt.Errorf("the label's key %.80q must be a name, or a domain, one / and a name, such as example.com/gpu", key)
	case len(value) > maxLabelBytes || !plain(value, "-_."):
		return fmt.Errorf("the value %.80q of the label %s must be at most %d letters, digits, or - _ and dots", value, key, maxLabelBytes)
	}
	return nil
}

// Check refuses a placement that no server can fulfil as it is meant.
func (p *Placement) Check() error {
	if p == nil {
		return nil
	}
	errs := []error{}
	if p.Replicas < 0 || p.Replicas > MaxReplicas {
		errs = append(errs, fmt.Errorf("replicas is %d; it must be 1 to %d, or left out for all servers that may have a part", p.Replicas, MaxReplicas))
	}
	if len(p.NodeSelector) > MaxLabels || len(p.Affinity) > maxTerms {
		errs = append(errs, fmt.Errorf("nodeSelector has %d labels and nodeSelectorTerms has %d terms; the limits are %d and %d", len(p.NodeSelector), len(p.Affinity), MaxLabels, maxTerms))
	}
	for _, key := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		errs = append(errs, CheckLabel(key, p.NodeSelector[key]))
	}
	for _, term := range p.Affinity {
		if len(term) > maxRequirements {
			errs = append(errs, fmt.Errorf("matchExpressions has %d requirements, limit %d", len(term), maxRequirements))
		}
		for i := range term {
			errs = append(errs, term[i].check())
		}
	}
	return errors.Join(errs...)
}

func (r *Requirement) check() error {
	if err := CheckLabel(r.Key, ""); err != nil {
		return err
	}
	wrong := func(want string) error {
		return fmt.Errorf("matchExpressions: %s of %s has %d values; it takes %s", r.Operator, r.Key, len(r.Values), want)
	}
	switch r.Operator {
	case In, NotIn:
		if len(r.Values) == 0 || len(r.Values) > maxValues {
			return wrong(fmt.Sprintf("1 to %d", maxValues))
		}
	case Exists, DoesNotExist:
		if len(r.Values) > 0 {
			return wrong("none")
		}
	case Gt, Lt:
		if len(r.Values) != 1 {
			return wrong("one whole number")
		}
		if _, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil {
			return fmt.Errorf("matchExpressions: %s of %s is %.40q; it takes one whole number", r.Operator, r.Key, r.Values[0])
		}
	default:
		return fmt.Errorf("matchExpressions: the operator %.40q of %s must be one of %s", r.Operator, r.Key, strings.Join(Operators(), ", "))
	}
	for _, value := range r.Values {
		if err := CheckLabel(r.Key, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *Requirement) holds(labels map[string]string) bool {
	value, there := labels[r.Key]
	switch r.Operator {
	case In:
		return there && slices.Contains(r.Values, value)
	case NotIn:
		return !there || !slices.Contains(r.Values, value)
	case Exists:
		return there
	case DoesNotExist:
		return !there
	case Gt, Lt:
		is, err := strconv.ParseInt(value, 10, 64)
		if err != nil || len(r.Values) != 1 {
			return false
		}
		than, err := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil && (r.Operator == Gt && is > than || r.Operator == Lt && is < than)
	}
	return false
}

// String is a requirement as people read it: gpu In [h100 h200].
func (r *Requirement) String() string {
	if len(r.Values) == 0 {
		return fmt.Sprintf("%s %s", r.Key, r.Operator)
	}
	return fmt.Sprintf("%s %s %v", r.Key, r.Operator, r.Values)
}

// Lacks says which labels keep a server from having a part; empty: none does.
func (p *Placement) Lacks(labels map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		value, there := labels[key]
		switch {
		case !there:
			list = append(list, fmt.Sprintf("it has no label %s, and %s=%s is asked for", key, key, p.NodeSelector[key]))
		case value != p.NodeSelector[key]:
			list = append(list, fmt.Sprintf("its label is %s=%s, and %s=%s is asked for", key, value, key, p.NodeSelector[key]))
		}
	}
	if len(p.Affinity) > 0 && !slices.ContainsFunc(p.Affinity, func(t SelectorTerm) bool { return t.holds(labels) }) {
		list = append(list, "no term of its node affinity holds: "+p.terms())
	}
	return strings.Join(list, "; ")
}

func (t SelectorTerm) holds(labels map[string]string) bool {
	for i := range t {
		if !t[i].holds(labels) {
			return false
		}
	}
	return len(t) > 0
}

func (p *Placement) terms() string {
	var terms []string
	for _, t := range p.Affinity {
		var parts []string
		for i := range t {
			parts = append(parts, t[i].String())
		}
		terms = append(terms, cmp.Or(strings.Join(parts, " and "), "an empty one"))
	}
	return strings.Join(terms, ", or ")
}

// count is how many servers have a part; 0: no limit.
func (p *Placement) count() int {
	if p == nil {
		return 0
	}
	return p.Replicas
}

// Server is what a server on the store says of itself.
type Server struct {
	Owner string `json:"-"` // of its lease
	Own   bool   `json:"-"` // it is the server that asks

	Instance string            `json:"instance"`
	URL      string            `json:"url"`                 // of its API, as others reach it
	AdminURL string            `json:"admin_url,omitempty"` // of the admin listener; empty: others do not reach it
	Region   string            `json:"region,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Models   []string          `json:"models,omitempty"` // names and aliases that it computes
	Computes bool              `json:"computes"`         // it takes parts in deployments
	Draining bool              `json:"draining,omitempty"`
}

// Same reports whether a server says the same of itself.
func (d *Server) Same(o *Server) bool {
	return d.Instance == o.Instance && d.URL == o.URL && d.AdminURL == o.AdminURL && d.Region == o.Region && maps.Equal(d.Labels, o.Labels) &&
		slices.Equal(d.Models, o.Models) && d.Computes == o.Computes && d.Draining == o.Draining
}

// Part is a server's place among those that have a model. It is the server's as long as its lease stands.
type Part struct {
	Model  string
	Number int // from 1
	Owner  string
	Own    bool
}

// rank is how many servers are before the own one where a part of a model is free, of those that may take it: those with fewer parts are,
// and of equals those that the model's name draws, so that many models spread. -1: it may not.
func rank(r *Record, servers []Server, parts []Part) int {
	held, has := make(map[string]int), make(map[string]bool)
	for _, p := range parts {
		held[p.Owner]++
		has[p.Owner] = has[p.Owner] || p.Model == r.Model
	}
	draw := func(owner string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(r.Model + "\x00" + owner)) // never fails
		return h.Sum64()
	}
	may := slices.DeleteFunc(slices.Clone(servers), func(d Server) bool {
		return has[d.Owner] || !d.Computes || d.Draining || r.Placement.Lacks(d.Labels) != ""
	})
	slices.SortFunc(may, func(a, b Server) int {
		return cmp.Or(cmp.Compare(held[a.Owner], held[b.Owner]), cmp.Compare(draw(a.Owner), draw(b.Owner)))
	})
	return slices.IndexFunc(may, func(d Server) bool { return d.Own })
}
