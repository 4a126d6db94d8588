package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Media types of the CNCF ModelPack specification, v0.0.7 (github.com/modelpack/model-spec, docs/spec.md): what weir
// writes. Layers are files as they are ("raw"), so that weights can be mapped into memory from their blob.
const (
	typeModelPack       = "application/vnd.cncf.model.manifest.v1+json" // artifactType of a manifest
	typeModelPackConfig = "application/vnd.cncf.model.config.v1+json"
	typeWeight          = "application/vnd.cncf.model.weight.v1.raw"
	typeWeightConfig    = "application/vnd.cncf.model.weight.config.v1.raw"
	typeDoc             = "application/vnd.cncf.model.doc.v1.raw"
	prefixModelPack     = "application/vnd.cncf.model."
)

// Media types of Docker Model Runner (github.com/docker/model-spec) and of Ollama: what weir reads, too.
const (
	typeDockerManifest   = "application/vnd.docker.distribution.manifest.v2+json"
	prefixDockerConfig   = "application/vnd.docker.ai.model.config."
	prefixDockerGGUF     = "application/vnd.docker.ai.gguf."
	typeDockerTemplate   = "application/vnd.docker.ai.chat.template.jinja"
	typeDockerLicense    = "application/vnd.docker.ai.license"
	prefixOllama         = "application/vnd.ollama.image."
	typeOllamaConfigHack = "application/vnd.docker.container.image.v1+json" // what Ollama calls its configuration
)

// Annotations of layers.
const (
	annotationFilepath = "org.cncf.model.filepath"
	annotationRole     = "weir.role"
)

// Bounds of a manifest and its configuration.
const (
	maxManifestBytes = 4 << 20
	maxRecordBytes   = 1 << 20
	maxFiles         = 1024
)

// Role is what a file of a version is for.
type Role string

// Roles.
const (
	Weights   Role = "weights"
	Tokenizer Role = "tokenizer" // that replaces the one of the weights
	Template  Role = "template"  // as above, of the chat
	Features  Role = "features"  // manifest of a classical model's inputs
	Golden    Role = "golden"    // rows with the outputs that must come out
	Profile   Role = "profile"   // that drift is measured against
	Doc       Role = "doc"
	Other     Role = "other"
	recorded  Role = "record"
)

var roles = []Role{Weights, Tokenizer, Template, Features, Golden, Profile, Doc, Other}

// File is a file of a version.
type File struct {
	Role      Role          `json:"role"`
	Name      string        `json:"name"` // without folders
	Digest    digest.Digest `json:"digest"`
	Size      int64         `json:"size_bytes"`
	MediaType string        `json:"media_type"`
}

// Record is what decides a version's answers beside its files, and where it is from. It is part of what the version's
// digest names.
type Record struct {
	Sampling *Sampling          `json:"sampling,omitempty"`
	Safety   json.RawMessage    `json:"safety,omitempty"`  // a policy, as the server that enforces it defines it
	Lineage  *Lineage           `json:"lineage,omitempty"` // where the weights come from
	Metrics  map[string]float64 `json:"metrics,omitempty"` // measured offline, by name
	Approval *Approval          `json:"approval,omitempty"`
}

// Sampling are the defaults of requests that do not say.
type Sampling struct {
	Temperature   *float64 `json:"temperature,omitempty"`
	TopP          *float64 `json:"top_p,omitempty"`
	TopK          *int     `json:"top_k,omitempty"`
	MinP          *float64 `json:"min_p,omitempty"`
	RepeatPenalty *float64 `json:"repetition_penalty,omitempty"`
	MaxTokens     *int     `json:"max_tokens,omitempty"`
	Stop          []string `json:"stop,omitempty"`
	System        string   `json:"system,omitempty"`
}

// Lineage says what a version was made from.
type Lineage struct {
	Source   string   `json:"source,omitempty"`   // a URL, or the name that was pulled
	Revision string   `json:"revision,omitempty"` // of the source, or of the code
	Base     string   `json:"base,omitempty"`     // the model that was trained on
	Datasets []string `json:"datasets,omitempty"`
	License  string   `json:"license,omitempty"` // SPDX
}

// Approval says who allowed a version.
type Approval struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"`
}

// modelConfig is ModelPack's configuration.
type modelConfig struct {
	Descriptor modelDescriptor `json:"descriptor"`
	ModelFS    modelFS         `json:"modelfs"`
	Config     modelFacts      `json:"config"`
}

type modelDescriptor struct {
	CreatedAt   *time.Time `json:"createdAt,omitempty"`
	Name        string     `json:"name,omitempty"`
	Revision    string     `json:"revision,omitempty"`
	SourceURL   string     `json:"sourceURL,omitempty"`
	DatasetsURL []string   `json:"datasetsURL,omitempty"`
	Licenses    []string   `json:"licenses,omitempty"`
}

type modelFS struct {
	Type    string          `json:"type"`
	DiffIDs []digest.Digest `json:"diffIds"`
}

type modelFacts struct {
	Architecture string `json:"architecture,omitempty"`
	Format       string `json:"format,omitempty"`
	ParamSize    string `json:"paramSize,omitempty"`
	Quantization string `json:"quantization,omitempty"`
}

// dockerConfig is what the configurations of Docker Model Runner and Ollama say, in the fields of any of their versions.
type dockerConfig struct {
	Config struct {
		Format       string         `json:"format"`
		Quantization string         `json:"quantization"`
		Parameters   string         `json:"parameters"`
		Architecture string         `json:"architecture"`
		GGUF         map[string]any `json:"gguf"`
	} `json:"config"`
	Descriptor struct {
		CreatedAt string `json:"createdAt"`
		Created   string `json:"created"`
	} `json:"descriptor"`

	ModelFormat string `json:"model_format"` // Ollama's
	ModelFamily string `json:"model_family"`
	ModelType   string `json:"model_type"`
	FileType    string `json:"file_type"`
}

// Facts are what is known of a model without reading its weights.
type Facts struct {
	Format       string `json:"format,omitempty"` // gguf, onnx, ubj …
	Architecture string `json:"architecture,omitempty"`
	Parameters   string `json:"parameters,omitempty"` // "1.2B"
	Quantization string `json:"quantization,omitempty"`
}

func isManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == typeDockerManifest
}

// parseManifest reads a manifest and refuses what cannot be a model that weir serves.
func parseManifest(data []byte) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	if len(data) > maxManifestBytes {
		return m, fmt.Errorf("%w: its manifest has more than %d bytes", ErrFormat, maxManifestBytes)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%w: its manifest is not JSON of the expected shape: %w", ErrFormat, err)
	}
	if m.SchemaVersion != 2 || m.MediaType != "" && !isManifest(m.MediaType) {
		return m, fmt.Errorf("%w: its manifest has schema version %d and media type %.80q", ErrFormat, m.SchemaVersion, m.MediaType)
	}
	if len(m.Layers) == 0 || len(m.Layers) > maxFiles {
		return m, fmt.Errorf("%w: its manifest lists %d files; 1 to %d are possible", ErrFormat, len(m.Layers), maxFiles)
	}
	for _, desc := range append(slices.Clone(m.Layers), m.Config) {
		if err := checkDigest(desc.Digest); err != nil {
			return m, err
		}
		if desc.Size < 0 {
			return m, fmt.Errorf("%w: %s has %d bytes", ErrFormat, desc.Digest, desc.Size)
		}
	}
	if m.Config.Size > maxManifestBytes {
		return m, fmt.Errorf("%w: its configuration has %d bytes; %d are the most", ErrFormat, m.Config.Size, maxManifestBytes)
	}
	return m, nil
}

// filesOf are the files of a manifest, the weights with the names that split GGUF files need.
func filesOf(m ocispec.Manifest) ([]File, error) {
	files := make([]File, len(m.Layers))
	var weights []*File
	for i, layer := range m.Layers {
		role := roleOf(layer)
		files[i] = File{role, fileName(layer), layer.Digest, layer.Size, layer.MediaType}
		if role == Weights {
			weights = append(weights, &files[i])
		}
		if role == Weights && isArchive(layer.MediaType) {
			return nil, fmt.Errorf("%w: its weights are in an archive (%s); weir reads layers that are files as they are: pack the model with raw layers",
				ErrFormat, layer.MediaType)
		}
	}
	if len(weights) == 0 {
		return nil, fmt.Errorf("%w: none of its %d files are weights (%s)", ErrFormat, len(files), m.Layers[0].MediaType)
	}
	for i, w := range weights {
		switch {
		case w.Name != "":
		case len(weights) == 1:
			w.Name = "model.gguf"
		default:
			w.Name = fmt.Sprintf("model-%05d-of-%05d.gguf", i+1, len(weights))
		}
	}
	nameRest(files)
	return files, nil
}

// nameRest gives files without a name, and those whose name another one has, a name of their own.
func nameRest(files []File) {
	taken := make(map[string]bool)
	for i := range files {
		f := &files[i]
		name := cmp.Or(f.Name, string(f.Role))
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%d-%s", n, cmp.Or(f.Name, string(f.Role)))
		}
		f.Name, taken[name] = name, true
	}
}

func isArchive(mediaType string) bool {
	return strings.HasSuffix(mediaType, ".tar") || strings.Contains(mediaType, ".tar+") || strings.HasSuffix(mediaType, "+gzip")
}

// fileName is the name that a layer's annotations give, without folders; empty where there is none to be trusted.
func fileName(layer ocispec.Descriptor) string {
	name := path.Base(strings.ReplaceAll(cmp.Or(layer.Annotations[annotationFilepath], layer.Annotations[ocispec.AnnotationTitle]), `\`, "/"))
	if name == "." || name == ".." || name == "/" || strings.HasPrefix(name, ".") || len(name) > 200 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	return name
}

// roleOf is what a layer is for: by our annotation, else by its media type, else by its name.
func roleOf(layer ocispec.Descriptor) Role {
	if role := Role(layer.Annotations[annotationRole]); role == recorded || slices.Contains(roles, role) {
		return role
	}
	switch t := layer.MediaType; {
	case strings.HasPrefix(t, prefixModelPack+"weight.config."):
		return roleByName(fileName(layer))
	case strings.HasPrefix(t, prefixModelPack+"weight."):
		return Weights
	case strings.HasPrefix(t, prefixModelPack+"doc."), t == typeDockerLicense, t == prefixOllama+"license":
		return Doc
	case strings.HasPrefix(t, prefixDockerGGUF) && !strings.HasSuffix(t, ".lora") && !strings.HasSuffix(t, ".mmproj"), t == prefixOllama+"model":
		return Weights
	case t == typeDockerTemplate:
		return Template
	}
	return Other // Ollama's templates are Go's, and the GGUF file has the model's own
}

func roleByName(name string) Role {
	switch {
	case strings.HasSuffix(name, ".jinja"):
		return Template
	case name == "tokenizer.json", name == "tokenizer.model":
		return Tokenizer
	}
	return Other
}

// factsOf reads the configuration of a manifest, of whichever kind it is. What it does not understand it leaves out:
// weights say what they are, too.
func factsOf(mediaType string, data []byte) (Facts, time.Time) {
	switch {
	case mediaType == typeModelPackConfig:
		var c modelConfig
		if json.Unmarshal(data, &c) != nil {
			return Facts{}, time.Time{}
		}
		var created time.Time
		if c.Descriptor.CreatedAt != nil {
			created = *c.Descriptor.CreatedAt
		}
		return Facts{c.Config.Format, c.Config.Architecture, c.Config.ParamSize, c.Config.Quantization}, created
	case strings.HasPrefix(mediaType, prefixDockerConfig), mediaType == typeOllamaConfigHack:
		var c dockerConfig
		if json.Unmarshal(data, &c) != nil {
			return Facts{}, time.Time{}
		}
		text := func(key string) string { s, _ := c.Config.GGUF[key].(string); return s }
		created, _ := time.Parse(time.RFC3339, cmp.Or(c.Descriptor.CreatedAt, c.Descriptor.Created))
		return Facts{
			Format:       cmp.Or(c.Config.Format, c.ModelFormat),
			Architecture: cmp.Or(c.Config.Architecture, text("architecture"), c.ModelFamily),
			Parameters:   cmp.Or(c.Config.Parameters, text("parameter_count"), c.ModelType),
			Quantization: cmp.Or(c.Config.Quantization, text("quantization"), c.FileType),
		}, created
	}
	return Facts{}, time.Time{}
}

// layerOf describes a file in a manifest of ours.
func layerOf(f File) ocispec.Descriptor {
	mediaType := typeWeightConfig
	switch f.Role {
	case Weights:
		mediaType = typeWeight
	case Doc:
		mediaType = typeDoc
	default:
	}
	return ocispec.Descriptor{
		MediaType: mediaType, Digest: f.Digest, Size: f.Size,
		Annotations: map[string]string{
			annotationFilepath: f.Name, ocispec.AnnotationTitle: f.Name, annotationRole: string(f.Role),
		},
	}
}

// newManifest is a manifest of ours and its configuration, both as JSON.
func newManifest(name string, files []File, facts Facts, rec Record, created *time.Time) (manifest, config []byte, err error) {
	c := modelConfig{
		Descriptor: modelDescriptor{CreatedAt: created, Name: name}, ModelFS: modelFS{Type: "layers"},
		Config: modelFacts{facts.Architecture, facts.Format, facts.Parameters, facts.Quantization},
	}
	if l := rec.Lineage; l != nil {
		c.Descriptor.Revision, c.Descriptor.SourceURL, c.Descriptor.DatasetsURL = l.Revision, l.Source, l.Datasets
		if l.License != "" {
			c.Descriptor.Licenses = []string{l.License}
		}
	}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: typeModelPack,
	}
	for _, f := range files {
		m.Layers = append(m.Layers, layerOf(f))
		c.ModelFS.DiffIDs = append(c.ModelFS.DiffIDs, f.Digest)
	}
	if config, err = json.Marshal(c); err != nil {
		return nil, nil, err
	}
	m.Config = ocispec.Descriptor{MediaType: typeModelPackConfig, Digest: digest.FromBytes(config), Size: int64(len(config))}
	manifest, err = json.Marshal(m)
	return manifest, config, err
}
