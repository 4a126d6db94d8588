package openai

import (
	"context"

	"weir/api"
	"weir/api/edge"
	"weir/api/moderation"
	"weir/api/openai/models"
	"weir/api/openai/pooling"
	"weir/internal/inference"
)

// Policies may have classifiers: models here that score texts. A reranker scores a text against
// a question; the vector that a text encoder makes of a text is a row for a classical model.
// What such a model cannot answer is refused: a text that was not checked does not pass.

// Predict gives each row's score by a classical model.
type Predict func(ctx context.Context, model string, rows [][]float32, residency []string) ([]float64, error)

// classify has the classifiers of a policy read texts, in one call each, and adds what they find
// to the reports, of which there is one for each text. With input set only rules about requests
// count, and the place of the first text that one of them blocks is returned, or -1. tell gets every
// score; it may be nil.
func (mod *moderator) classify(p *moderation.Policy, texts []string, reports []*moderation.Report, input bool,
	tell func(text int, category string, score float64)) (blocked int, fault *api.Error) {
	blocked = -1
	if len(texts) == 0 {
		return blocked, nil
	}
	for _, k := range p.Classifiers() {
		if input && k.Action == moderation.Ignore {
			continue
		}
		scores, fault := mod.scored(&k.ClassifierSpec, texts)
		if fault != nil {
			return -1, fault
		}
		for i, score := range scores {
			if tell != nil {
				tell(i, k.Category, score)
			}
			if p.Scored(&k, score, texts[i], reports[i]) && input && (blocked < 0 || i < blocked) {
				blocked = i
			}
		}
	}
	return blocked, nil
}

// scored asks a classifier's model. The call's permit is others' meanwhile.
func (mod *moderator) scored(k *moderation.ClassifierSpec, texts []string) (scores []float64, fault *api.Error) {
	had := mod.permit != nil
	mod.releasePermit()
	defer func() {
		if had && fault == nil {
			fault = mod.acquirePermit()
		}
	}()
	set := mod.server.models.Load()
	entry, ok := set.Find(k.Model)
	if !ok || entry.Upstream != nil {
		return nil, classifierUnavailable(k.Model)
	}
	m, release, fault := mod.hold(entry)
	if fault != nil {
		return nil, fault
	}
	defer release()
	rank := k.Question != ""
	switch kind := m.Kind(); {
	case rank && kind != models.KindRank, !rank && (kind != models.KindEmbedding || mod.server.config.Predict == nil):
		return nil, classifierUnavailable(k.Model)
	}
	p, fault := mod.server.config.pooling().ReadClassified(m, k.Question, texts)
	if fault != nil {
		return nil, fault
	}
	t := mod.caller.Tenant
	asked := &inference.Embedding{ID: "policy-" + mod.id, Tenant: t.Name, Weight: t.Weight, Class: t.Class, Arrived: mod.arrived,
		WaitUntil: mod.termsReader().After(t.QueueTimeout), Texts: p.Texts, Types: p.Types}
	if fault := embed(mod.call, m, asked); fault != nil {
		return nil, fault
	}
	if fault := pooling.Check(m.Pooler, asked); fault != nil {
		return nil, fault
	}
	if rank {
		for _, v := range p.Answer.(*pooling.ScoreAnswer).Scores(asked.Vectors) {
			scores = append(scores, float64(v))
		}
		return scores, nil
	}
	return mod.predicted(k.Predictor, asked.Vectors)
}

// hold holds the version that answers for a model.
func (mod *moderator) hold(entry *models.Model) (m *models.Model, release func(), fault *api.Error) {
	if entry.Versions == nil {
		return entry, func() {}, nil
	}
	held, err := entry.Versions.Acquire(&models.VersionRequest{Model: entry.ID, ID: mod.id, Tenant: mod.caller.Tenant.Name, Endpoint: routeModerations, Residency: mod.caller.Tenant.Residency})
	if err != nil {
		return nil, nil, edge.Fault(err)
	}
	if m = held.Model; m == nil {
		if m, err = mod.lease.await(held.Load, nil); err != nil {
			held.Release()
			return nil, nil, edge.Fault(err)
		}
	}
	return m, held.Release, nil
}

// predicted has a classical model score vectors of length 1, as /v1/embeddings gives them.
func (mod *moderator) predicted(model string, vectors [][]float32) ([]float64, *api.Error) {
	for _, v := range vectors {
		pooling.Normalise(v)
	}
	ctx, cancel := mod.context()
	defer cancel(nil)
	scores, err := mod.server.config.Predict(ctx, model, vectors, mod.caller.Tenant.Residency)
	switch {
	case err == nil && len(scores) == len(vectors):
		return scores, nil
	case context.Cause(ctx) != nil:
		if fault := mod.server.config.Hooks.Interrupted(model, context.Cause(ctx)); fault != nil {
			return nil, fault
		}
	}
	return nil, classifierUnavailable(model)
}

func classifierUnavailable(model string) *api.Error {
	return api.Refuse("classifier_unavailable", "the policy of this model asks the classifier "+model+", which does not answer now")
}
