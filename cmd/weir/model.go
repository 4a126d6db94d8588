package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/llamacpp"
	"weir/engine/llm"
	"weir/internal/cpu"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/router"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// choosePath lets the verb's argument name the model, instead of the
// configuration.
func choosePath(c *configs.Config, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.Model.Path != "" && c.Model.Path != args[0] {
		return &usageError{fmt.Errorf("the argument names %q and the configuration %q", args[0], c.Model.Path),
			"name the model once"}
	}
	c.Model.Path = args[0]
	return nil
}

// chooseModels lets the verb's arguments name the models: one file stands for the
// configuration's model, several, or those with names, for records of its list.
func chooseModels(c *configs.Config, args []string) error {
	if len(args) == 1 {
		if name, _ := namedFile(args[0]); name == "" {
			return choosePath(c, args)
		}
	}
	for _, arg := range args {
		c.Models = append(c.Models, configs.NewServedModel(namedFile(arg)))
	}
	if len(args) > 1 && len(c.Model.ServedNames) > 0 && c.Model.Path == "" {
		return &usageError{errors.New("--served-model-name is for one model, and there are several"), "name them as NAME=FILE"}
	}
	if err := c.Validate(); err != nil {
		return configError(err)
	}
	return nil
}

// namedFile reads NAME=FILE; a file with such a name is a file.
func namedFile(arg string) (name, path string) {
	name, path, named := strings.Cut(arg, "=")
	if _, err := os.Stat(arg); err == nil || !named || strings.ContainsAny(name, "/@") {
		return "", arg
	}
	return name, path
}

// openModel opens a GGUF file, or the embedded model where path is empty. The
// caller closes it.
func openModel(path string) (*gguf.File, error) {
	if path == "" {
		data := defaultmodel.GGUF()
		return gguf.Parse(bytes.NewReader(data), int64(len(data)))
	}
	f, err := gguf.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; give the path of a .gguf file, or none for the built-in model", err)
	case errors.Is(err, gguf.ErrFormat) && !strings.HasSuffix(path, ".gguf"):
		return nil, fmt.Errorf("%w; language models are read from GGUF files, and weir serve --classic %s serves a model of XGBoost, LightGBM, CatBoost or ONNX", err, path)
	}
	return f, err
}

// openRunnable is openModel, and refuses what the engine could not run; no
// weights are read.
func openRunnable(c configs.Config) (*gguf.File, error) {
	f, err := openModel(c.Model.Path)
	if err != nil {
		return nil, err
	}
	if _, err = describe(f, c); err != nil {
		return nil, errors.Join(loadError(c.Model, err), f.Close())
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

// loadError names the file, whose name clients may not know.
func loadError(c configs.Model, err error) error {
	return fmt.Errorf("load %s: %w", cmp.Or(c.Path, "the built-in model"), err)
}

// model is a loaded model: the engine, or the encoder, and what turns text into ids
// and back.
type model struct {
	name      string
	engine    *llm.Engine      // one of these three computes it
	encoder   *llm.Encoder     // of texts
	llama     *llamacpp.Engine // for language models that engine does not know
	llamaInfo llm.Info         // of llama
	tokenizer *tokenizer.Tokenizer
	template  template

	pairTemplate string // of a reranker; empty: none
}

// info describes the model.
func (m *model) info() llm.Info {
	switch {
	case m.encoder != nil:
		return m.encoder.Info()
	case m.llama != nil:
		return m.llamaInfo
	}
	return m.engine.Info()
}

// generator computes a language model's answers.
type generator interface {
	router.Backend
	Close(ctx context.Context) error
}

// generator is nil for an encoder.
func (m *model) generator() generator {
	switch {
	case m.encoder != nil:
		return nil
	case m.llama != nil:
		return m.llama
	}
	return m.engine
}

// submit queues one request of a language model.
func (m *model) submit(r *inference.Request) (*inference.Stream, error) {
	streams, err := m.generator().SubmitAll([]*inference.Request{r})
	if err != nil {
		return nil, err
	}
	return streams[0], nil
}

// modelHooks are called by the engine's loop.
type modelHooks struct {
	progress func(done, total int64)
	measures func(done, total int) // of what the cache costs, at a model's first load; nil: nobody looks
	options  func(*llm.Options)    // sets the engine's own hooks
}

// loadModel reads a model into memory and starts its step loop.
func loadModel(c configs.Config, f *gguf.File, hooks modelHooks) (*model, error) {
	m := &model{name: c.Model.Name()}
	var err error
	if m.tokenizer, err = tokenizer.New(f.Value); err != nil {
		return nil, loadError(c.Model, err)
	}
	opts, err := engineOptions(c)
	if err != nil {
		return nil, err
	}
	if info, err := llm.Describe(f, opts); err == nil && info.Embeds {
		return m, m.openEncoder(c, f, opts, hooks)
	}
	if m.template, err = chooseTemplate(c.Model, f, m.tokenizer); err != nil {
		return nil, err
	}
	if onLlamaCpp(c) {
		return m, m.openLlamaCpp(c, f)
	}
	opts.EndTokens = m.tokenizer.EOG()
	opts.Sample, opts.OnMeasure = cacheSample(m.tokenizer), hooks.measures
	opts.Secret = prefixSecret(c.Engine)
	opts.BlockEvents = c.Engine.PrefixCacheKey != "" // without it nobody else can make use of the hashes
	if hooks.options != nil {
		hooks.options(&opts)
	}
	if m.engine, err = llm.Open(f, opts, hooks.progress); err != nil {
		return nil, loadError(c.Model, err)
	}
	return m, nil
}

// openEncoder reads a text encoder, which has no template, into memory.
func (m *model) openEncoder(c configs.Config, f *gguf.File, opts llm.Options, hooks modelHooks) error {
	if hooks.options != nil {
		hooks.options(&opts)
	}
	var err error
	if m.pairTemplate, _, err = f.String(pairTemplateKey); err != nil {
		return loadError(c.Model, err)
	}
	if m.encoder, err = llm.OpenEncoder(f, opts, hooks.progress); err != nil {
		return loadError(c.Model, err)
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

// prepareThreads lets the process do other things while the engine's threads
// compute, and says what is wrong with their number, if anything is. A process that computes no model has none.
func prepareThreads(c configs.Config) (warning string) {
	if !c.Computes() {
		return ""
	}
	threads := cmp.Or(c.Engine.Threads, cpu.Threads())
	cpu.MakeRoom(threads)
	return cpu.Excess(threads)
}

// engineOptions are the engine's part of the configuration.
func engineOptions(c configs.Config) (llm.Options, error) {
	kv, err := attend.ParseKVType(c.Engine.KVType)
	if err != nil {
		return llm.Options{}, err
	}
	level, err := isa.Parse(c.Engine.CPULevel)
	if err != nil {
		return llm.Options{}, configError(err)
	}
	return llm.Options{
		DType:   llm.DType(max(slices.Index(llm.DTypes, c.Engine.EncoderDType), 0)), //nolint:gosec // an index of three
		Threads: c.Engine.Threads, Level: level, Fine: c.Engine.Fine, KVType: kv, KVBytes: c.Engine.KVMemoryBytes,
		CacheCosts:  cacheCosts{costsFolder(), cmp.Or(level, isa.Best())},
		BlockTokens: c.Engine.BlockTokens, MaxModelLen: c.Scheduler.MaxModelLen,
		CheckTensors: c.Engine.CheckTensors, Scheduler: c.Scheduler,
		Speculate: c.Engine.Speculate,
	}, nil
}
