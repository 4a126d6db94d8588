package predict

import (
	"context"
	"slices"

	"weir/api"
	"weir/api/predict/oip"
	"weir/internal/tensor"
)

// The methods below implement oip.GRPCInferenceServiceServer; each answers what its
// counterpart over HTTP answers.

// asError keeps a nil *api.Error from becoming an error that is not nil.
func asError(fault *api.Error) error {
	if fault == nil {
		return nil
	}
	return fault
}

// ServerLive reports that the process answers.
func (g *service) ServerLive(context.Context, *oip.ServerLiveRequest) (*oip.ServerLiveResponse, error) {
	return &oip.ServerLiveResponse{Live: true}, nil
}

// ServerReady reports whether requests are taken.
func (g *service) ServerReady(context.Context, *oip.ServerReadyRequest) (*oip.ServerReadyResponse, error) {
	ready, _ := g.isReady()
	return &oip.ServerReadyResponse{Ready: ready}, nil
}

// ServerMetadata names server, version and extensions.
func (g *service) ServerMetadata(context.Context, *oip.ServerMetadataRequest) (*oip.ServerMetadataResponse, error) {
	return &oip.ServerMetadataResponse{Name: serverName, Version: g.config.Version, Extensions: extensions}, nil
}

// ModelReady reports whether a model can be used.
func (g *service) ModelReady(ctx context.Context, q *oip.ModelReadyRequest) (*oip.ModelReadyResponse, error) {
	ready, fault := g.modelIsReady(&remoteOf(ctx).job, q.GetName(), q.GetVersion())
	return &oip.ModelReadyResponse{Ready: ready}, asError(fault)
}

// ModelMetadata describes a model's inputs and outputs.
func (g *service) ModelMetadata(ctx context.Context, q *oip.ModelMetadataRequest) (*oip.ModelMetadataResponse, error) {
	j := &remoteOf(ctx).job
	if fault := g.use(j, q.GetName(), q.GetVersion()); fault != nil {
		return nil, fault
	}
	list := func(specs []tensor.Spec) []*oip.ModelMetadataResponse_TensorMetadata {
		all := make([]*oip.ModelMetadataResponse_TensorMetadata, len(specs))
		for i, s := range specs {
			all[i] = &oip.ModelMetadataResponse_TensorMetadata{Name: s.Name, Datatype: s.Type.String(), Shape: s.Shape}
		}
		return all
	}
	d := j.about
	return &oip.ModelMetadataResponse{Name: d.Name, Versions: g.versions(d.Name), Platform: d.Platform,
		Inputs: list(slices.Concat(d.Inputs, d.Optional)), Outputs: list(d.Outputs)}, nil
}

// ModelConfig is Triton's configuration of a model, as far as it means something here.
func (g *service) ModelConfig(ctx context.Context, q *oip.ModelConfigRequest) (*oip.ModelConfigResponse, error) {
	j := &remoteOf(ctx).job
	if fault := g.use(j, q.GetName(), q.GetVersion()); fault != nil {
		return nil, fault
	}
	d := j.about
	c := &oip.ModelConfig{Name: d.Name, Platform: d.Platform, Backend: serverName, MaxBatchSize: int32(min(maxBatch(d), 1<<31-1))} //nolint:gosec // bounded
	for _, s := range d.Inputs {
		c.Input = append(c.Input, &oip.ModelInput{Name: s.Name, DataType: oip.DataType(oip.DataType_value[configType(s.Type)]), Dims: dimsOf(d, s.Shape)})
	}
	for _, s := range d.Outputs {
		c.Output = append(c.Output, &oip.ModelOutput{Name: s.Name, DataType: oip.DataType(oip.DataType_value[configType(s.Type)]), Dims: dimsOf(d, s.Shape)})
	}
	return &oip.ModelConfigResponse{Config: c}, nil
}

// ModelStatistics counts what befell requests.
func (g *service) ModelStatistics(ctx context.Context, q *oip.ModelStatisticsRequest) (*oip.ModelStatisticsResponse, error) {
	list, fault := g.statisticsOf(&remoteOf(ctx).job, q.GetName(), q.GetVersion())
	if fault != nil {
		return nil, fault
	}
	answer := new(oip.ModelStatisticsResponse)
	for i := range list {
		m, d := &list[i], durationPB
		batches := make([]*oip.InferBatchStatistics, len(m.Batches))
		for k := range m.Batches {
			b := &m.Batches[k]
			batches[k] = &oip.InferBatchStatistics{BatchSize: b.Size, ComputeInput: d(b.Input), ComputeInfer: d(b.Infer), ComputeOutput: d(b.Output)}
		}
		answer.ModelStats = append(answer.ModelStats, &oip.ModelStatistics{
			Name: m.Name, Version: m.Version, LastInference: uint64(max(m.LastInference, 0)), //nolint:gosec // not negative
			InferenceCount: m.InferenceCount, ExecutionCount: m.ExecutionCount,
			InferenceStats: &oip.InferStatistics{
				Success: d(m.Inference.Success), Fail: d(m.Inference.Fail), Queue: d(m.Inference.Queue),
				ComputeInput: d(m.Inference.Input), ComputeInfer: d(m.Inference.Infer), ComputeOutput: d(m.Inference.Output),
				CacheHit: d(m.Inference.Hit), CacheMiss: d(m.Inference.Miss),
			},
			BatchStats: batches,
		})
	}
	return answer, nil
}

func durationPB(d durationJSON) *oip.StatisticDuration {
	return &oip.StatisticDuration{Count: d.Count, Ns: d.Ns}
}

// RepositoryIndex lists the versions of all models.
func (g *service) RepositoryIndex(ctx context.Context, q *oip.RepositoryIndexRequest) (*oip.RepositoryIndexResponse, error) {
	answer := new(oip.RepositoryIndexResponse)
	for _, m := range g.index(&remoteOf(ctx).job, q.GetReady()) {
		answer.Models = append(answer.Models, &oip.RepositoryIndexResponse_ModelIndex{Name: m.Name, Version: m.Version, State: m.State, Reason: m.Reason})
	}
	return answer, nil
}

// RepositoryModelLoad loads a model of the configuration, again where it is loaded.
func (g *service) RepositoryModelLoad(ctx context.Context, q *oip.RepositoryModelLoadRequest) (*oip.RepositoryModelLoadResponse, error) {
	r := remoteOf(ctx)
	for name := range q.GetParameters() {
		return nil, unsupportedRepository(name, "load")
	}
	return new(oip.RepositoryModelLoadResponse), asError(g.change(&r.job, "load", q.GetModelName(), r.from))
}

// RepositoryModelUnload takes a model away.
func (g *service) RepositoryModelUnload(ctx context.Context, q *oip.RepositoryModelUnloadRequest) (*oip.RepositoryModelUnloadResponse, error) {
	r := remoteOf(ctx)
	for name := range q.GetParameters() {
		if name != "unload_dependents" {
			return nil, unsupportedRepository(name, "unload")
		}
	}
	return new(oip.RepositoryModelUnloadResponse), asError(g.change(&r.job, "unload", q.GetModelName(), r.from))
}
