package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/llamacpp"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/cpu"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/router"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// Open opens a GGUF file, or the embedded model where path is empty. The
// caller closes it.
func Open(path string) (*gguf.File, error) {
	if path == "" {
		data := defaultmodel.GGUF()
		return gguf.Parse(bytes.NewReader(data), int64(len(data)))
	}
	f, err := gguf.Open(path)
	switch {
	case errors.Is(err, gguf.ErrNotRegular):
		if found := filesIn(path); found != "" {
			return nil, fmt.Errorf("open model %s: it is a folder; give the path of one of its files: %s", path, found)
		}
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; give the path of a .gguf file, or none for the built-in model", err)
	case errors.Is(err, gguf.ErrFormat) && !strings.HasSuffix(path, ".gguf"):
		return nil, fmt.Errorf("%w; language models are read from GGUF files, and weir serve --classic %s serves a model of XGBoost, LightGBM, CatBoost or ONNX", err, path)
	}
	return f, err
}

// mostListed GGUF files of a folder are named where it is given in the place of one.
const mostListed = 5

// filesIn names the GGUF files of a folder, with their paths; "" where there are none. The first part of a model in several files stands for it.
func filesIn(folder string) string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return ""
	}
	var found []string
	for _, e := range entries {
		if name := e.Name(); strings.EqualFold(filepath.Ext(name), ".gguf") && (!partName.MatchString(name) || strings.Contains(name, "-00001-of-")) {
			found = append(found, filepath.Join(folder, name))
		}
	}
	if n := len(found); n > mostListed {
		found = append(found[:mostListed], fmt.Sprintf("and %d more", n-mostListed))
	}
	return strings.Join(found, ", ")
}

// partName is the end of the names of a model in several files.
var partName = regexp.MustCompile(`(?i)-[0-9]{5}-of-[0-9]{5}\.gguf$`)

// OpenRunnable is openModel, and refuses what the engine could not run; no
// weights are read.
func OpenRunnable(c configs.Config) (*gguf.File, error) {
	f, err := Open(c.Model.Path)
	if err != nil {
		return nil, err
	}
	if _, err = Describe(f, c); err != nil {
		return nil, errors.Join(LoadError(c.Model, err), f.Close())
	}
	if choice := c.Model.ChatTemplate; choice != "" {
		if _, builtin := chat.FindBuiltin(choice); !builtin {
			if _, err := chosenTemplate(choice, nil); err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
	}
	return f, nil
}

// LoadError names the file, whose name clients may not know.
func LoadError(c configs.Model, err error) error {
	return fmt.Errorf("load %s: %w", cmp.Or(c.Path, "the built-in model"), err)
}

// Model is a loaded model: the engine, or the encoder, and what turns text into ids
// and back.
type Model struct {
	Name      string
	Engine    *llm.Engine      // one of these three computes it
	Encoder   *llm.Encoder     // of texts
	Llama     *llamacpp.Engine // for language models that engine does not know
	llamaInfo llm.Info         // of llama
	Tokenizer *tokenizer.Tokenizer
	Template  Template

	PairTemplate string    // of a reranker; empty: none
	Decision     *Decision // how its file says that it is asked for decisions; nil: it does not
}

// Info describes the model.
func (m *Model) Info() llm.Info {
	switch {
	case m.Encoder != nil:
		return m.Encoder.Info()
	case m.Llama != nil:
		return m.llamaInfo
	}
	return m.Engine.Info()
}

// generator computes a language model's answers.
type generator interface {
	router.Backend
	Close(ctx context.Context) error
}

// Generator is nil for an encoder.
func (m *Model) Generator() generator {
	switch {
	case m.Encoder != nil:
		return nil
	case m.Llama != nil:
		return m.Llama
	}
	return m.Engine
}

// Submit queues one request of a language model.
func (m *Model) Submit(r *inference.Request) (*inference.Stream, error) {
	streams, err := m.Generator().SubmitAll([]*inference.Request{r})
	if err != nil {
		return nil, err
	}
	return streams[0], nil
}

// Close frees a model that no request was served with.
func (m *Model) Close() error {
	if m.Encoder != nil {
		return m.Encoder.Close(context.Background())
	}
	return m.Generator().Close(context.Background())
}

// Hooks are called by the engine's loop.
type Hooks struct {
	Progress func(done, total int64)
	Measures func(done, total int) // of what the cache costs, at a model's first load; nil: not shown
	Stopped  func() error          // asked during the load, from several goroutines; its error ends it; nil: nothing does
	Options  func(*llm.Options)    // sets the engine's own hooks
}

// Load reads a model into memory and starts its step loop.
func Load(c configs.Config, f *gguf.File, hooks Hooks) (*Model, error) {
	m := &Model{Name: c.Model.Name()}
	var err error
	if m.Tokenizer, err = tokenizer.New(f.Value); err != nil {
		return nil, LoadError(c.Model, err)
	}
	opts, err := EngineOptions(c)
	if err != nil {
		return nil, err
	}
	opts.Stopped = hooks.Stopped
	if info, err := llm.Describe(f, opts); err == nil && info.Embeds {
		return m, m.openEncoder(c, f, opts, hooks)
	}
	if m.Template, err = ChooseTemplate(c.Model, f, m.Tokenizer); err != nil {
		return nil, err
	}
	if OnLlamaCpp(c) {
		return m, m.openLlamaCpp(c, f)
	}
	if m.Decision, err = readDecision(f, m.Tokenizer); err != nil {
		return nil, LoadError(c.Model, err)
	}
	opts.EndTokens = m.Tokenizer.EOG()
	opts.Sample, opts.OnMeasure = cacheSample(m.Tokenizer), hooks.Measures
	opts.Secret = prefixSecret(c.Engine)
	opts.BlockEvents = c.Engine.PrefixCacheKey != "" // without it no router can make use of the hashes
	if hooks.Options != nil {
		hooks.Options(&opts)
	}
	done, err := OpenDraft(c, &opts)
	if err != nil {
		return nil, err
	}
	defer done()
	if m.Engine, err = llm.Open(f, opts, hooks.Progress); err != nil {
		return nil, LoadError(c.Model, err)
	}
	return m, nil
}

// openEncoder reads a text encoder, which has no template, into memory.
func (m *Model) openEncoder(c configs.Config, f *gguf.File, opts llm.Options, hooks Hooks) error {
	if hooks.Options != nil {
		hooks.Options(&opts)
	}
	var err error
	if m.PairTemplate, _, err = f.String(pairTemplateKey); err != nil {
		return LoadError(c.Model, err)
	}
	if m.Decision, err = readDecision(f, m.Tokenizer); err != nil {
		return LoadError(c.Model, err)
	}
	if m.Encoder, err = llm.OpenEncoder(f, opts, hooks.Progress); err != nil {
		return LoadError(c.Model, err)
	}
	return nil
}

// prefixSecret roots block hashes: in the key that replicas share, or in chance.
func prefixSecret(c configs.Engine) []byte {
	if c.PrefixCacheKey != "" {
		return []byte(c.PrefixCacheKey)
	}
	secret := make([]byte, 32)
	rand.Read(secret) // never returns an error
	return secret
}

// PrepareThreads lets the process do other things while the engine's threads
// compute, and says what is wrong with their number, if anything is. A process that computes no model has none.
func PrepareThreads(c configs.Config) (warning string) {
	if !c.Computes() {
		return ""
	}
	threads := cmp.Or(c.Engine.Threads, cpu.Threads())
	cpu.MakeRoom(threads)
	return cpu.Excess(threads)
}

// EngineOptions are the engine's part of the configuration.
func EngineOptions(c configs.Config) (llm.Options, error) {
	kv, err := attend.ParseKVType(c.Engine.KVType)
	if err != nil {
		return llm.Options{}, err
	}
	level, err := isa.Parse(c.Engine.CPULevel)
	if err != nil {
		return llm.Options{}, console.ConfigError(err)
	}
	return llm.Options{
		DType:   llm.DType(max(slices.Index(llm.DTypes, c.Engine.EncoderDType), 0)), //nolint:gosec // an index of three
		Threads: c.Engine.Threads, Level: level, Fine: c.Engine.Fine, KVType: kv, KVBytes: c.Engine.KVMemoryBytes,
		CacheCosts:  cacheCosts{CostsFolder(), cmp.Or(level, isa.Best())},
		BlockTokens: c.Engine.BlockTokens, MaxModelLen: c.Scheduler.MaxModelLen,
		CheckTensors: c.Engine.CheckTensors, Scheduler: c.Scheduler, MaxAdapters: c.Model.MaxLoras, MaxAdapterRank: c.Model.MaxLoraRank,
		Speculate: c.Engine.Speculate || c.Engine.DraftPath != "" || c.Engine.MTP, MTP: c.Engine.MTP,
	}, nil
}

// OpenDraft opens the file of the draft model, if there is one, for opts. The caller calls the function that it returns when the options have been
// used.
func OpenDraft(c configs.Config, opts *llm.Options) (func(), error) {
	if c.Engine.DraftPath == "" {
		return func() {}, nil
	}
	f, err := gguf.Open(c.Engine.DraftPath)
	if err != nil {
		return nil, fmt.Errorf("--speculative-model: %w", err)
	}
	opts.Draft = f
	return func() { _ = f.Close() }, nil // it was only read
}

// pairTemplateKey is where converters put the text that a reranker of language
// models reads of a pair, with {query} and {document} in it.
const pairTemplateKey = "tokenizer.chat_template.rerank"
