package ollama

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/api"
)

// Catalog is what a server knows of its models beside what requests need. Its methods are safe for concurrent use.
type Catalog interface {
	// Details of the version that answers for a name; false: its file is not here.
	Details(name string) (Details, bool)
	// File reads what the file of the version that answers for a name says of itself.
	File(name string) (*File, error)
	// Running are the versions in memory.
	Running() []Running
	// Pull brings a model that is not served into the models folder and serves it under the name that it was asked by. by is for the audit log; tell is
	// told what is done, and of bytes how many of how many.
	Pull(ctx context.Context, name, by string, tell func(status string, done, total int64)) error
	// Keep gives a version, of label "" the one that answers, another time without a request after which it leaves memory; negative: it stays.
	// The error says why that cannot be.
	Keep(name, label string, idle time.Duration) error
}

// Details are what is known of a model's file.
type Details struct {
	Digest          string // of the file, in hexadecimal
	Bytes           int64  // of the file
	Modified        time.Time
	Architecture    string
	Parameters      uint64
	Quantization    string
	Parent          string // the model that an adapter changes
	ContextLength   int
	EmbeddingLength int
	Capabilities    []string // see the constants
}

// What a model can do.
const (
	CanComplete = "completion"
	CanInsert   = "insert" // between two texts
	CanEmbed    = "embedding"
	CanCall     = "tools"
	CanThink    = "thinking"
)

// File is what a model's file says of itself.
type File struct {
	License  string
	Template string
	System   string    // of the model's record
	Defaults []Setting // as above
	Metadata map[string]any
	Tensors  []Tensor
}

// Setting is a parameter that requests get which do not say it, with its JSON.
type Setting struct{ Name, Value string }

// Tensor is one of a file.
type Tensor struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`
	Shape []uint64 `json:"shape"`
}

// Running is a version in memory.
type Running struct {
	Name    string
	Bytes   int64     // of memory
	Context int       // tokens
	Leaves  time.Time // where no request comes; zero: it stays
}

// details is the object of the same name.
type details struct {
	ParentModel       string   `json:"parent_model"`
	Format            string   `json:"format"`
	Family            string   `json:"family"`
	Families          []string `json:"families"`
	ParameterSize     string   `json:"parameter_size"`
	QuantizationLevel string   `json:"quantization_level"`
	ContextLength     int      `json:"context_length,omitempty"`
	EmbeddingLength   int      `json:"embedding_length,omitempty"`
}

func detailsOf(d *Details) details {
	if d.Architecture == "" {
		return details{}
	}
	return details{ParentModel: d.Parent, Format: "gguf", Family: d.Architecture, Families: []string{d.Architecture}, ParameterSize: size(d.Parameters), QuantizationLevel: d.Quantization,
		ContextLength: d.ContextLength, EmbeddingLength: d.EmbeddingLength}
}

// size is a count of parameters as Ollama writes it: 494M, 1.54B.
func size(n uint64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}} {
		if v := float64(n) / unit.of; v >= 1 {
			places := 2
			if v >= 10 {
				places--
			}
			if v >= 100 {
				places--
			}
			return fmt.Sprintf("%.*f%s", places, v, unit.name)
		}
	}
	if n >= 1000 {
		return fmt.Sprintf("%.0fK", float64(n)/1e3)
	}
	return strconv.FormatUint(n, 10)
}

// Tagged is a model's name with a tag.
func Tagged(name string) string {
	if strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		return name
	}
	return name + ":latest"
}

// Listed is a model in the list of GET /api/tags.
type Listed struct {
	Name         string    `json:"name"`
	Model        string    `json:"model"`
	ModifiedAt   time.Time `json:"modified_at"`
	Size         int64     `json:"size"`
	Digest       string    `json:"digest"`
	Details      details   `json:"details"`
	Capabilities []string  `json:"capabilities,omitempty"`
}

// List is a model as it is listed.
func List(name string, d *Details) Listed {
	return Listed{Name: Tagged(name), Model: Tagged(name), ModifiedAt: d.Modified, Size: d.Bytes, Digest: d.Digest, Details: detailsOf(d), Capabilities: d.Capabilities}
}

// Process is a model in the list of GET /api/ps.
type Process struct {
	Name          string    `json:"name"`
	Model         string    `json:"model"`
	Size          int64     `json:"size"`
	Digest        string    `json:"digest"`
	Details       details   `json:"details"`
	ExpiresAt     time.Time `json:"expires_at"`
	SizeVRAM      int64     `json:"size_vram"`
	ContextLength int       `json:"context_length"`
}

// never is when a model leaves that stays: what Ollama shows of a keep_alive without an end.
var never = time.Date(2318, time.January, 1, 0, 0, 0, 0, time.UTC)

// Show is a version in memory as it is listed.
func (r *Running) Show(d *Details) Process {
	p := Process{Name: Tagged(r.Name), Model: Tagged(r.Name), Size: r.Bytes, Digest: d.Digest, Details: detailsOf(d), ExpiresAt: r.Leaves, ContextLength: r.Context}
	if p.ExpiresAt.IsZero() {
		p.ExpiresAt = never
	}
	return p
}

// Shown is the answer of POST /api/show.
type Shown struct {
	License      string         `json:"license,omitempty"`
	Modelfile    string         `json:"modelfile,omitempty"`
	Parameters   string         `json:"parameters,omitempty"`
	Template     string         `json:"template,omitempty"`
	System       string         `json:"system,omitempty"`
	Details      details        `json:"details"`
	ModelInfo    map[string]any `json:"model_info"`
	Tensors      []Tensor       `json:"tensors,omitempty"`
	Capabilities []string       `json:"capabilities,omitempty"`
	ModifiedAt   time.Time      `json:"modified_at"`
}

// untold are metadata that stand elsewhere in the answer.
var untold = []string{"general.name", "tokenizer.chat_template"}

// Show is a model with what its file says; f is nil where the file is not here.
func Show(name string, d *Details, f *File) *Shown {
	s := &Shown{Details: detailsOf(d), Capabilities: d.Capabilities, ModifiedAt: d.Modified, ModelInfo: map[string]any{}}
	if f == nil {
		return s
	}
	s.License, s.Template, s.System, s.Tensors = f.License, f.Template, f.System, f.Tensors
	for key, value := range f.Metadata {
		if !slices.Contains(untold, key) {
			s.ModelInfo[key] = value
		}
	}
	var parameters, lines strings.Builder
	fmt.Fprintf(&lines, "# Modelfile of what this server runs\nFROM %s\n", Tagged(name))
	if f.Template != "" {
		fmt.Fprintf(&lines, "TEMPLATE \"\"\"%s\"\"\"\n", f.Template)
	}
	if f.System != "" {
		fmt.Fprintf(&lines, "SYSTEM \"\"\"%s\"\"\"\n", f.System)
	}
	for i, p := range f.Defaults {
		if i > 0 {
			parameters.WriteByte('\n')
		}
		fmt.Fprintf(&parameters, "%-30s %s", p.Name, p.Value)
		fmt.Fprintf(&lines, "PARAMETER %s %s\n", p.Name, p.Value)
	}
	s.Parameters, s.Modelfile = parameters.String(), lines.String()
	return s
}

// mostListed is how many elements of a list are told to who has not asked for all.
const mostListed = 5

// Shorten empties the long lists of the metadata, such as a vocabulary's.
func (f *File) Shorten() {
	for key, value := range f.Metadata {
		if v := reflect.ValueOf(value); v.Kind() == reflect.Slice && v.Len() > mostListed {
			f.Metadata[key] = []any{}
		}
	}
}

// AppendProgress appends a line of the progress of a pull, without its end. total 0 is not known.
func AppendProgress(dst []byte, status string, done, total int64) []byte {
	dst = api.AppendString(append(dst, `{"status":`...), status)
	if total > 0 {
		dst = strconv.AppendInt(append(dst, `,"total":`...), total, 10)
		dst = strconv.AppendInt(append(dst, `,"completed":`...), done, 10)
	}
	return append(dst, '}')
}
