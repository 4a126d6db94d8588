package capacity

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/bench"
	"weir/scheduler"
)

// Catalogue is what can be had, and what it shall serve.
type Catalogue struct {
	Instances []Instance `yaml:"instances"`
	Models    []Model    `yaml:"models"`
	Headroom  *float64   `yaml:"headroom"` // share of a replica that stays free; absent is 0.3
	Zones     int        `yaml:"zones"`    // of which one may be lost

	folder string // that files are named from
}

// Instance is a machine or a GPU with a price.
type Instance struct {
	Name         string   `yaml:"name"`
	PricePerHour float64  `yaml:"price_per_hour"`
	MemoryGiB    float64  `yaml:"memory_gib"`              // that models may use; of a known card it is the card's. 0 is not looked at
	Card         string   `yaml:"card"`                    // one of Cards
	MIG          []string `yaml:"mig"`                     // profiles that it may be cut into; none: it is used whole only
	Share        bool     `yaml:"share"`                   // replicas of several models may stand on one, within its memory and time
	Resource     string   `yaml:"resource"`                // that a pod asks Kubernetes for; of a card nvidia.com/gpu
	NetworkGbit  float64  `yaml:"network_gbit_per_second"` // that KV blocks move with between pools; 0 is 10

	card *Card
}

// Model is a model and its load.
type Model struct {
	Name       string  `yaml:"name"`
	GGUF       string  `yaml:"gguf"` // file that weights and KV are read from
	WeightsGiB float64 `yaml:"weights_gib"`
	KVBytes    float64 `yaml:"kv_bytes_per_token"`
	Load       Load    `yaml:"load"`
	Targets    Targets `yaml:"targets"`
	Rates      []On    `yaml:"rates"`

	lengths Lengths
}

// Load is what clients ask for.
type Load struct {
	Rate    float64 `yaml:"rate"`    // requests a second; 0 is that of the lengths' file
	Prompt  float64 `yaml:"prompt"`  // mean tokens
	Output  float64 `yaml:"output"`  // mean tokens
	Spread  float64 `yaml:"spread"`  // lengths are even in mean x (1 ± spread)
	Lengths string  `yaml:"lengths"` // file that they are taken from: a detailed result of bench serve, or a trace
	Cached  float64 `yaml:"cached"`  // share of prompt tokens that prefix caches hold
}

// On says how fast a model is on an instance, or on a slice of it ("h100/1g.10gb"), and how it is served there.
type On struct {
	On        string   `yaml:"on"`
	Batched   []string `yaml:"batched"` // results of weir bench batched
	Sequences int      `yaml:"npl"`     // of it, the test that capacity is computed from; 0 is the one with the most
	Serve     []string `yaml:"serve"`   // results of bench serve, weir's or vLLM's, at several --max-concurrency
	Prefill   float64  `yaml:"prefill_tokens_per_second"`
	Decode    []Batch  `yaml:"decode"`

	Engine    string         `yaml:"engine"`                 // weir or vllm: whether steps are bounded by --itl-target-ms
	Seqs      int            `yaml:"max_num_seqs"`           // 0 is 256
	Batch     int            `yaml:"max_num_batched_tokens"` // 0 is 512, of vllm 2048
	ITLTarget *time.Duration `yaml:"itl_target"`             // absent is 200 ms, or the target of ITL p99 where that is less
	KVTokens  int            `yaml:"kv_tokens"`              // 0 is what memory leaves beside the weights
	Given     *Rates         `yaml:"-"`                      // instead of any of these
}

// maxCatalogueBytes bounds a file.
const maxCatalogueBytes = 1 << 20

// Describe tells a GGUF file's bytes of weights, and of the KV cache of a sequence of so many tokens.
type Describe func(path string) (weights float64, kv func(tokens int) float64, err error)

// ReadCatalogue reads a file and what it names.
func ReadCatalogue(path string, describe Describe) (*Catalogue, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxCatalogueBytes+1))
	if err == nil && len(raw) > maxCatalogueBytes {
		err = fmt.Errorf("more than %d KiB", maxCatalogueBytes>>10)
	}
	if err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", path, err)
	}
	c, err := parseCatalogue(raw)
	if err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", path, err)
	}
	c.folder = filepath.Dir(path)
	return c, c.Prepare(describe)
}

func parseCatalogue(raw []byte) (*Catalogue, error) {
	c := &Catalogue{}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(inYAMLsWords(err.Error()))
	}
	return c, c.check()
}

var (
	unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongKind  = regexp.MustCompile("cannot construct !!(\\w+)( `[^`]*`)? into (\\S+)")
	yamlKinds  = map[string]string{"seq": "a list", "map": "a mapping", "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false"}
)

// inYAMLsWords is a decoder's error without Go's types, and with the place that has all keys.
func inYAMLsWords(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "construct errors: ")
	text = unknownKey.ReplaceAllString(text, "there is no key $1 here; configs/plan.example.yml has all of them")
	return wrongKind.ReplaceAllStringFunc(text, func(found string) string {
		m := wrongKind.FindStringSubmatch(found)
		want := "a mapping"
		switch {
		case strings.HasPrefix(m[3], "[]"):
			want = "a list"
		case strings.Contains(m[3], "int"):
			want = "a whole number"
		case strings.Contains(m[3], "float"):
			want = "a number"
		case m[3] == "string":
			want = "a text"
		case m[3] == "bool":
			want = "true or false"
		}
		return cmp.Or(yamlKinds[m[1]], m[1]) + m[2] + ", want " + want + "; configs/plan.example.yml shows it"
	})
}

// Bounds of a catalogue.
const (
	mostInstances = 64
	mostModels    = 64
)

func (c *Catalogue) check() error {
	switch {
	case len(c.Instances) == 0 || len(c.Instances) > mostInstances:
		return fmt.Errorf("%d instances, want 1 to %d", len(c.Instances), mostInstances)
	case len(c.Models) == 0 || len(c.Models) > mostModels:
		return fmt.Errorf("%d models, want 1 to %d", len(c.Models), mostModels)
	case c.Zones < 0 || c.Zones > 100:
		return fmt.Errorf("%d zones, want 0 to 100", c.Zones)
	case c.Headroom != nil && !(*c.Headroom >= 0 && *c.Headroom < 1):
		return fmt.Errorf("a headroom of %g, want a share from 0 to below 1", *c.Headroom)
	}
	names := map[string]bool{}
	for i := range c.Instances {
		x := &c.Instances[i]
		if err := x.check(); err != nil {
			return fmt.Errorf("instance %q: %w", x.Name, err)
		}
		if names[x.Name] {
			return fmt.Errorf("instance %q is there twice", x.Name)
		}
		names[x.Name] = true
	}
	for i := range c.Models {
		m := &c.Models[i]
		if m.Name == "" || names["model "+m.Name] {
			return fmt.Errorf("model %d is named %q, want a name of its own", i+1, m.Name)
		}
		names["model "+m.Name] = true
		for j := range m.Rates {
			if _, err := c.kind(m.Rates[j].On); err != nil {
				return fmt.Errorf("model %q: rates on %q: %w", m.Name, m.Rates[j].On, err)
			}
		}
	}
	return nil
}

func (x *Instance) check() error {
	switch {
	case x.Name == "" || strings.Contains(x.Name, "/"):
		return errors.New("want a name without a slash")
	case !(x.PricePerHour >= 0 && x.PricePerHour <= 1e6) || !(x.MemoryGiB >= 0 && x.MemoryGiB <= 1e6) || !(x.NetworkGbit >= 0 && x.NetworkGbit <= 1e6):
		return fmt.Errorf("%g an hour, %g GiB, %g Gbit/s: want 0 to 1e6", x.PricePerHour, x.MemoryGiB, x.NetworkGbit)
	case x.Card == "" && len(x.MIG) > 0:
		return errors.New("mig without card, which tells what slices it can be cut into")
	}
	x.NetworkGbit = cmp.Or(x.NetworkGbit, 10)
	if x.Card == "" {
		return nil
	}
	var err error
	if x.card, err = FindCard(x.Card); err != nil {
		return err
	}
	x.MemoryGiB, x.Resource = cmp.Or(x.MemoryGiB, x.card.MemoryGiB), cmp.Or(x.Resource, "nvidia.com/gpu")
	for _, name := range x.MIG {
		if x.card.find(name) < 0 {
			var known []string
			for _, p := range x.card.Profiles {
				known = append(known, p.Name)
			}
			return fmt.Errorf("%s has no MIG profile %q; it has %s", x.Card, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Kind is what a replica runs on: an instance, or a slice of its card.
type Kind struct {
	Name     string
	instance *Instance
	profile  int // of the card; -1 is the whole instance
}

// kind finds "INSTANCE" or "INSTANCE/PROFILE".
func (c *Catalogue) kind(name string) (*Kind, error) {
	instance, profile, cut := strings.Cut(name, "/")
	i := slices.IndexFunc(c.Instances, func(x Instance) bool { return x.Name == instance })
	if i < 0 {
		return nil, fmt.Errorf("no instance is named %q", instance)
	}
	k := &Kind{name, &c.Instances[i], -1}
	if !cut {
		return k, nil
	}
	if !slices.Contains(k.instance.MIG, profile) {
		return nil, fmt.Errorf("%q is not in mig of instance %q", profile, instance)
	}
	k.profile = k.instance.card.find(profile)
	return k, nil
}

// memory in bytes; 0 is not looked at.
func (k *Kind) memory() float64 {
	if k.profile >= 0 {
		return k.instance.card.Profiles[k.profile].MemoryGiB * gib
	}
	return k.instance.MemoryGiB * gib
}

// Resource is what a pod asks Kubernetes for.
func (k *Kind) Resource() string {
	if k.profile >= 0 {
		return "nvidia.com/mig-" + k.instance.card.Profiles[k.profile].Name
	}
	return k.instance.Resource
}

const gib = 1 << 30

// Prepare reads the files that the catalogue names and fills in defaults.
func (c *Catalogue) Prepare(describe Describe) error {
	if err := c.check(); err != nil {
		return err
	}
	for i := range c.Models {
		m := &c.Models[i]
		if err := c.prepare(m, describe); err != nil {
			return fmt.Errorf("model %q: %w", m.Name, err)
		}
	}
	return nil
}

func (c *Catalogue) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.folder, name)
}

func (c *Catalogue) prepare(m *Model, describe Describe) error {
	if err := c.lengthsOf(m); err != nil {
		return err
	}
	if m.GGUF != "" {
		weights, kv, err := describe(c.path(m.GGUF))
		if err != nil {
			return err
		}
		if m.WeightsGiB == 0 {
			m.WeightsGiB = weights / gib
		}
		// what a token takes is less in long sequences, whose windows have passed: as in a request that is half done
		tokens := max(1, int(m.Load.Prompt+m.Load.Output/2))
		m.KVBytes = cmp.Or(m.KVBytes, kv(tokens)/float64(tokens))
	}
	if !(m.WeightsGiB >= 0 && m.WeightsGiB < 1e6) || !(m.KVBytes >= 0 && m.KVBytes < 1e9) {
		return fmt.Errorf("weights of %g GiB and %g bytes of KV a token, want 0 or more", m.WeightsGiB, m.KVBytes)
	}
	if len(m.Rates) == 0 {
		return errors.New("no rates: say how fast it is on which instance")
	}
	for i := range m.Rates {
		if err := c.ratesOf(m, &m.Rates[i]); err != nil {
			return fmt.Errorf("rates on %q: %w", m.Rates[i].On, err)
		}
	}
	return nil
}

func (c *Catalogue) lengthsOf(m *Model) (err error) {
	l := &m.Load
	if l.Lengths == "" {
		m.lengths, err = Spread(l.Prompt, l.Output, l.Spread)
		return err
	}
	if l.Prompt != 0 || l.Output != 0 || l.Spread != 0 {
		return errors.New("lengths from a file, and prompt, output or spread beside it: give one of the two")
	}
	lengths, rate, err := bench.ReadLengths(c.path(l.Lengths))
	if err != nil {
		return err
	}
	m.lengths, l.Rate = lengths, cmp.Or(l.Rate, rate)
	l.Prompt, l.Output = m.lengths.Means()
	return nil
}

// Defaults of how a model is served.
const (
	defaultSeqs      = 256
	defaultBatch     = 512
	defaultVLLMBatch = 2048
	defaultITLTarget = 200 * time.Millisecond
)

func (c *Catalogue) ratesOf(m *Model, on *On) error {
	switch on.Engine = cmp.Or(on.Engine, "weir"); {
	case on.Engine != "weir" && on.Engine != "vllm":
		return fmt.Errorf("engine %q, want weir or vllm", on.Engine)
	case on.Seqs < 0 || on.Seqs > mostSequences || on.Batch < 0 || on.Batch > mostTokens || on.KVTokens < 0:
		return fmt.Errorf("%d sequences, %d tokens a step, %d tokens of KV: want 0 or more", on.Seqs, on.Batch, on.KVTokens)
	}
	on.Seqs = cmp.Or(on.Seqs, defaultSeqs)
	if on.Engine == "vllm" {
		on.Batch = cmp.Or(on.Batch, defaultVLLMBatch)
	}
	on.Batch = max(cmp.Or(on.Batch, defaultBatch), on.Seqs)
	if on.ITLTarget == nil {
		target := defaultITLTarget
		if t := m.Targets.ITL99; t > 0 {
			target = min(target, t)
		}
		if on.Engine == "vllm" {
			target = 0
		}
		on.ITLTarget = &target
	}
	if on.Given != nil {
		return nil
	}
	given := 0
	for _, is := range []bool{len(on.Batched) > 0, len(on.Serve) > 0, on.Prefill != 0 || len(on.Decode) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return errors.New("want one of batched, serve, or prefill_tokens_per_second with decode")
	}
	return c.readRates(m, on)
}

func (c *Catalogue) readRates(m *Model, on *On) error {
	results, err := readResults(append(slices.Clone(on.Batched), on.Serve...), c.path)
	if err != nil {
		return err
	}
	switch {
	case len(on.Batched) > 0:
		on.Given, err = FromBatched(results, on.Sequences)
	case len(on.Serve) > 0:
		on.Given, err = FromServe(results, on.Batch)
	default:
		on.Given, err = FromNumbers(on.Prefill, on.Decode, int(m.Load.Prompt+m.Load.Output/2), on.Batch)
	}
	return err
}

func readResults(names []string, path func(string) string) ([]*bench.Result, error) {
	var results []*bench.Result
	for _, name := range names {
		r, err := bench.ReadResult(path(name))
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// config is how a replica's scheduler is set.
func (on *On) config() scheduler.Config {
	s := scheduler.Config{MaxSeqs: on.Seqs, MaxBatchTokens: on.Batch, ITLTarget: *on.ITLTarget}
	if on.Engine == "vllm" {
		s.StepLimit = -1
	}
	return s
}
