package server

import (
	"context"
	"time"

	"go.uber.org/zap"

	"weir/api/openai/models"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/internal/server/local"
)

// resident is a version in memory.
type resident struct {
	*local.Model
	entry *models.Model
	log   *zap.Logger

	steps     *timeline
	maxSeqs   int
	itlTarget time.Duration
}

// Close implements versions.Content.
func (r *resident) Close(ctx context.Context) error {
	if r.Encoder != nil {
		return r.Encoder.Close(ctx)
	}
	return r.Generator().Close(ctx)
}

// newEntry is the model as the edge knows it.
func (r *resident) newEntry(p *planned) *models.Model {
	info := r.Info()
	e := &models.Model{
		ID: r.Name, Version: info.Digest, Created: time.Now().Unix(), Fingerprint: info.Fingerprint(),
		Tokenizer: r.Tokenizer, Template: r.Template.Template, Family: r.Template.Family, MaxModelLen: info.MaxModelLen,
	}
	if args := p.config.Model.TemplateArgs; args != "" {
		e.Variables = []byte(args)
	}
	e.HideTools = p.config.Model.HideTools
	e.Calibration, _ = models.ReadCalibration(p.config.Model.Calibration) // each item was checked as it was set
	for _, d := range p.record.Defaults {
		e.Defaults = append(e.Defaults, models.Default{Field: d.Key, Value: []byte(d.Value)})
	}
	if r.Encoder != nil {
		e.Pooler = poolerOf(r.Model)
		e.Pooler.Prompts = p.config.Model.TaskPrompts()
	} else {
		e.Backend = r.Generator()
		e.Decision = decisionOf(r.Model)
	}
	if r.Engine != nil {
		e.Vocabulary = models.NewVocabulary(r.Tokenizer)
	}
	return e
}

// advise logs what an operator should know of a model.
func (r *resident) advise(p *planned) {
	info, model := r.Info(), zap.String("model", r.Name)
	if r.Llama != nil {
		r.log.Warn("this model runs on llama.cpp: one request at a time, the next ones wait; no prefix cache, no batching", model)
	}
	if r.Template.Template == nil && r.Encoder == nil {
		r.log.Warn("this model cannot chat; /v1/completions works", model, zap.Error(r.Template.Why))
	}
	if len(p.config.Model.Prompts) > 0 && r.Encoder == nil {
		r.log.Warn("--embedding-prompt changes nothing: it is for text encoders, and this model generates text", model)
	}
	if r.Encoder != nil && info.Pooling == inference.PoolingLast && info.Scores == 0 && !info.Decides && !r.Tokenizer.AddsEOS() {
		r.log.Warn("a text's vector is that of its last token, and the file does not say that the end token goes behind a text "+
			"(tokenizer.ggml.add_eos_token); write it there if the model was trained so, as Qwen3-Embedding was", model)
	}
	if r.Template.Note != "" {
		r.log.Warn(r.Template.Note, model)
	}
	if info.KVMeasured > 0 {
		r.log.Info("measured what a q8_0 KV cache costs this model, for --kv-cache-dtype auto; what was measured is kept for later loads where there is a cache folder",
			model, zap.Float64("nats", *info.KVCost), zap.Float64("most", llm.MostCacheCost), zap.String("kv_cache_dtype", info.KVType), zap.Duration("took", info.KVMeasured))
	}
	if info.MaxModelLen > info.ContextLength {
		r.log.Warn("sequences may grow beyond what the model was trained on", model,
			zap.Int("max_model_len", info.MaxModelLen), zap.Int("context", info.ContextLength))
	}
}
