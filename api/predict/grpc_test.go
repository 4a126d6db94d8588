package predict

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"weir/api/edge"
	"weir/api/predict/oip"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
	"weir/scheduler/quota"
)

// dial serves gRPC for a configuration until the test ends.
func dial(t *testing.T, c Config) (*Server, *grpc.ClientConn, oip.GRPCInferenceServiceClient) {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	g := NewGRPC(s, GRPCConfig{IdleTimeout: time.Minute, HandshakeTime: 5 * time.Second, MaxStreams: 100})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(ln) }()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		g.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, conn, oip.NewGRPCInferenceServiceClient(conn)
}

// sumRequest asks the model sums for one row, in typed contents.
func sumRequest(values ...float32) *oip.ModelInferRequest {
	return &oip.ModelInferRequest{ModelName: "sums", Id: "7", Inputs: []*oip.ModelInferRequest_InferInputTensor{{
		Name: "input", Datatype: "FP32", Shape: []int64{int64(len(values) / 4), 4}, Contents: &oip.InferTensorContents{Fp32Contents: values},
	}}}
}

func TestModelInfer(t *testing.T) {
	_, _, client := dial(t, config(t, newModels(sums(), echo(everyType...))))
	ctx := t.Context()
	got, err := client.ModelInfer(ctx, sumRequest(1, 2, 3, 4), grpc.UseCompressor(gzip.Name))
	if err != nil || got.GetId() != "7" || got.GetModelVersion() != "3" || !slices.Equal(got.GetOutputs()[0].GetContents().GetFp32Contents(), []float32{10}) || !slices.Equal(got.GetOutputs()[0].GetShape(), []int64{1}) {
		t.Errorf("typed: %v, %v", got, err)
	}
	raw := &oip.ModelInferRequest{ModelName: "sums", Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "FP32", Shape: []int64{2, 4}}},
		RawInputContents: [][]byte{floatBytes(1, 2, 3, 4, 5, 6, 7, 8)}}
	got, err = client.ModelInfer(ctx, raw)
	if err != nil || string(got.GetRawOutputContents()[0]) != string(floatBytes(10, 26)) || got.GetOutputs()[0].GetContents() != nil {
		t.Errorf("raw: %v, %v", got, err)
	}
}

// Every type goes through typed contents and raw ones.
func TestModelInferTypes(t *testing.T) {
	type contents = oip.InferTensorContents
	_, _, client := dial(t, config(t, newModels(echo(
		tensor.Spec{Name: "x", Type: tensor.Float32, Shape: []int64{-1}}))))
	for name, c := range map[string]*contents{
		"BOOL": {BoolContents: []bool{true, false}}, "INT8": {IntContents: []int32{-128, 127}}, "INT16": {IntContents: []int32{-32768, 5}},
		"INT32": {IntContents: []int32{math.MinInt32, 5}}, "INT64": {Int64Contents: []int64{math.MinInt64, 5}}, "UINT8": {UintContents: []uint32{255, 0}},
		"UINT16": {UintContents: []uint32{65535, 0}}, "UINT32": {UintContents: []uint32{math.MaxUint32, 0}}, "UINT64": {Uint64Contents: []uint64{math.MaxUint64, 0}},
		"FP32": {Fp32Contents: []float32{0.1, float32(math.Inf(1))}}, "FP64": {Fp64Contents: []float64{0.1, -5e-324}}, "BYTES": {BytesContents: [][]byte{{0xff}, {}}},
	} {
		q := &oip.ModelInferRequest{ModelName: "echo", Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: name, Shape: []int64{2}, Contents: c}}}
		got, err := client.ModelInfer(t.Context(), q)
		if err != nil || !proto.Equal(got.GetOutputs()[0].GetContents(), c) || got.GetOutputs()[0].GetDatatype() != name {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	half := &oip.ModelInferRequest{ModelName: "echo", Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP16", Shape: []int64{2}}}, RawInputContents: [][]byte{{1, 2, 3, 4}}}
	if got, err := client.ModelInfer(t.Context(), half); err != nil || string(got.GetRawOutputContents()[0]) != "\x01\x02\x03\x04" {
		t.Errorf("FP16: %v, %v", got, err)
	}
}

func TestModelInferRefusals(t *testing.T) {
	var fail error
	broken := sums()
	broken.about.Name = "broken"
	broken.do = func(context.Context, *router.Prediction) error {
		if fail == nil {
			panic("secret")
		}
		return fail
	}
	_, _, client := dial(t, config(t, newModels(sums(), broken)))
	change := func(f func(*oip.ModelInferRequest)) *oip.ModelInferRequest {
		q := sumRequest(1, 2, 3, 4)
		f(q)
		return q
	}
	for _, c := range []struct {
		q    *oip.ModelInferRequest
		code codes.Code
		says string
	}{
		{change(func(q *oip.ModelInferRequest) { q.ModelName = "none" }), codes.NotFound, "not served"},
		{change(func(q *oip.ModelInferRequest) { q.ModelVersion = "9" }), codes.NotFound, "not served"},
		{change(func(q *oip.ModelInferRequest) { q.Inputs = nil }), codes.InvalidArgument, "no inputs"},
		{change(func(q *oip.ModelInferRequest) { q.Inputs[0].Shape = []int64{2, 4} }), codes.InvalidArgument, "has 4 elements"},
		{change(func(q *oip.ModelInferRequest) { q.Inputs[0].Shape = []int64{-1, -4} }), codes.InvalidArgument, "has 4 elements"},
		{change(func(q *oip.ModelInferRequest) { q.Inputs[0].Datatype = "FP64" }), codes.InvalidArgument, "has 0 elements"},
		{change(func(q *oip.ModelInferRequest) { q.Inputs[0].Datatype = "FP16" }), codes.InvalidArgument, "raw_input_contents"},
		{change(func(q *oip.ModelInferRequest) { q.Inputs[0].Datatype = "" }), codes.InvalidArgument, "unknown"},
		{change(func(q *oip.ModelInferRequest) { q.Inputs = append(q.Inputs, q.Inputs[0]) }), codes.InvalidArgument, "comes twice"},
		{change(func(q *oip.ModelInferRequest) { q.RawInputContents = [][]byte{nil} }), codes.InvalidArgument, "beside raw"},
		{change(func(q *oip.ModelInferRequest) { q.RawInputContents = [][]byte{nil, nil} }), codes.InvalidArgument, "one of each"},
		{change(func(q *oip.ModelInferRequest) {
			q.Outputs = []*oip.ModelInferRequest_InferRequestedOutputTensor{{Name: "no"}}
		}), codes.InvalidArgument, "no output"},
		{change(func(q *oip.ModelInferRequest) {
			q.Parameters = map[string]*oip.InferParameter{"sequence_id": {ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: 5}}}
		}), codes.InvalidArgument, "sequence_id"},
		{change(func(q *oip.ModelInferRequest) {
			q.Parameters = map[string]*oip.InferParameter{"timeout": {ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: -5}}}
		}), codes.InvalidArgument, "timeout"},
	} {
		_, err := client.ModelInfer(t.Context(), c.q)
		if s := status.Convert(err); s.Code() != c.code || !strings.Contains(s.Message(), c.says) {
			t.Errorf("%v: %v; want %v with %q", c.q, err, c.code, c.says)
		}
	}
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{inference.ErrInvalid, codes.InvalidArgument}, {inference.ErrQueueFull, codes.Unavailable}, {inference.ErrTenantQueueFull, codes.ResourceExhausted},
		{inference.ErrDeadline, codes.DeadlineExceeded}, {nil, codes.Internal},
	} {
		fail = c.err
		var trailer metadata.MD
		_, err := client.ModelInfer(t.Context(), change(func(q *oip.ModelInferRequest) { q.ModelName = "broken" }), grpc.Trailer(&trailer))
		if s := status.Convert(err); s.Code() != c.code || strings.Contains(s.Message(), "secret") || len(trailer.Get("x-weir-reason")) != 1 {
			t.Errorf("%v: %v %v", c.err, err, trailer)
		}
	}
}

func TestModelInferTerms(t *testing.T) {
	// A call that a client gave up runs on beside the next one.
	var mu sync.Mutex
	var last router.Prediction
	var finished []edge.RequestFinish
	f := sums()
	do := f.do
	f.do = func(ctx context.Context, p *router.Prediction) error {
		mu.Lock()
		last = *p
		mu.Unlock()
		if err := do(ctx, p); err != nil || p.Inputs[0].Shape[0] == 1 {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	rest := tenant.New(tenant.Rest)
	rest.Limits = quota.Limits{TokensPerMinute: 100}
	rest.HighestClass = inference.Interactive
	c := config(t, newModels(f), rest)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) {
		mu.Lock()
		defer mu.Unlock()
		finished = append(finished, f)
	}
	asked := func() router.Prediction {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
	_, _, client := dial(t, c)
	q := sumRequest(1, 2, 3, 4)
	q.Parameters = map[string]*oip.InferParameter{
		"priority": {ParameterChoice: &oip.InferParameter_Uint64Param{Uint64Param: 3}},
		"timeout":  {ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: 5_000_000}},
	}
	var head metadata.MD
	if _, err := client.ModelInfer(t.Context(), q, grpc.Header(&head)); err != nil {
		t.Fatal(err)
	}
	got := asked()
	if due := time.Until(got.DoneBy); got.Class != inference.Batch || due > 5*time.Second || due < time.Second || fmt.Sprint(head.Get("x-ratelimit-remaining-tokens")) != "[99]" {
		t.Errorf("%+v %v", got, head)
	}
	mu.Lock()
	first := finished[0]
	mu.Unlock()
	if first.PromptTokens != 1 || first.Endpoint != oip.GRPCInferenceService_ModelInfer_FullMethodName || first.Status != 200 {
		t.Errorf("%+v", first)
	}
	q = sumRequest(1, 2, 3, 4, 5, 6, 7, 8)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.ModelInfer(ctx, q); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	ctx = metadata.AppendToOutgoingContext(t.Context(), "x-weir-deadline-ms", "30", "x-weir-class", "interactive")
	if _, err := client.ModelInfer(ctx, q); status.Code(err) != codes.DeadlineExceeded || asked().Class != inference.Interactive {
		t.Error(err)
	}
}

func TestModelStreamInfer(t *testing.T) {
	_, _, client := dial(t, config(t, newModels(sums())))
	stream, err := client.ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bad := sumRequest(1, 2, 3, 4)
	bad.ModelName, bad.Id = "none", "8"
	for _, q := range []*oip.ModelInferRequest{sumRequest(1, 2, 3, 4), bad, sumRequest(4, 4, 4, 4)} {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil || got.GetInferResponse().GetId() != q.GetId() || (got.GetErrorMessage() != "") != (q == bad) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestModelsOverGRPC(t *testing.T) {
	connected := newModels(sums(), echo(everyType...))
	_, conn, client := dial(t, config(t, connected))
	ctx := t.Context()
	if got, err := client.ServerReady(ctx, &oip.ServerReadyRequest{}); err != nil || !got.GetReady() {
		t.Error(got, err)
	}
	if got, err := client.ServerMetadata(ctx, &oip.ServerMetadataRequest{}); err != nil || got.GetName() != "weir" {
		t.Error(got, err)
	}
	if got, err := client.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: "sums"}); err != nil || got.GetInputs()[0].GetDatatype() != "FP32" || got.GetPlatform() != "test" {
		t.Error(got, err)
	}
	if got, err := client.ModelConfig(ctx, &oip.ModelConfigRequest{Name: "echo"}); err != nil || got.GetConfig().GetInput()[6].GetDataType() != oip.DataType_TYPE_STRING {
		t.Error(got, err)
	}
	if _, err := client.RepositoryModelUnload(ctx, &oip.RepositoryModelUnloadRequest{ModelName: "sums"}); err != nil {
		t.Error(err)
	}
	if got, err := client.ModelReady(ctx, &oip.ModelReadyRequest{Name: "sums"}); err != nil || got.GetReady() {
		t.Error(got, err)
	}
	if got, err := client.RepositoryIndex(ctx, &oip.RepositoryIndexRequest{}); err != nil || got.GetModels()[0].GetState() != "UNAVAILABLE" {
		t.Error(got, err)
	}
	if _, err := client.RepositoryModelLoad(ctx, &oip.RepositoryModelLoadRequest{ModelName: "sums"}); err != nil {
		t.Error(err)
	}
	c := connected.asked
	if len(c) != 2 || !strings.HasPrefix(c[0], "unload by repository API, from ") || !strings.HasPrefix(c[1], "load by repository API, from ") {
		t.Errorf("the changes were asked for by %q", c)
	}
	if _, err := client.RepositoryModelLoad(ctx, &oip.RepositoryModelLoadRequest{ModelName: "none"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if _, err := client.ModelInfer(ctx, sumRequest(1, 2, 3, 4)); err != nil {
		t.Error(err)
	}
	if got, err := client.ModelStatistics(ctx, &oip.ModelStatisticsRequest{Name: "sums"}); err != nil || got.GetModelStats()[0].GetInferenceStats().GetSuccess().GetCount() != 1 ||
		len(got.GetModelStats()[0].GetBatchStats()) != 1 || got.GetModelStats()[0].GetBatchStats()[0].GetBatchSize() != 1 || got.GetModelStats()[0].GetBatchStats()[0].GetComputeInfer().GetCount() != 1 {
		t.Error(got, err)
	}
	if got, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Error(got, err)
	}
}

func TestGRPCCallers(t *testing.T) {
	c := config(t, newModels(sums()))
	d, err := tenant.NewDirectory(nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Callers, err = tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: d, StaticKeys: []string{"sk-0123456789"}}); err != nil {
		t.Fatal(err)
	}
	_, _, client := dial(t, c)
	if _, err := client.ModelInfer(t.Context(), sumRequest(1, 2, 3, 4)); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	if stream, err := client.ModelStreamInfer(t.Context()); err != nil {
		t.Error(err)
	} else if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer sk-0123456789")
	if _, err := client.ModelInfer(ctx, sumRequest(1, 2, 3, 4)); err != nil {
		t.Error(err)
	}
	if _, err := client.RepositoryModelUnload(ctx, &oip.RepositoryModelUnloadRequest{ModelName: "sums"}); status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
	if got, err := client.ServerLive(t.Context(), &oip.ServerLiveRequest{}); err != nil || !got.GetLive() {
		t.Error(got, err)
	}
}

func FuzzModelInfer(f *testing.F) {
	for _, q := range []*oip.ModelInferRequest{sumRequest(1, 2, 3, 4), {Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "s", Datatype: "BYTES", Shape: []int64{1}}}, RawInputContents: [][]byte{{1, 0, 0, 0, 'a'}}}} {
		b, err := proto.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s := &Server{}
	f.Fuzz(func(t *testing.T, body []byte) {
		q := new(oip.ModelInferRequest)
		if proto.Unmarshal(body, q) != nil {
			return
		}
		m := echo(everyType...)
		who := tenant.New("x")
		r := &remote{Server: s, job: job{Exchange: &edge.Exchange{}}, head: metadata.MD{}}
		r.about, r.Caller.Tenant = &m.about, &who
		classes, fault := r.readInfer(q)
		if fault != nil {
			return
		}
		sound(t, body, r.p.Inputs)
		if r.p.Outputs = r.p.Inputs; len(classes) == 0 {
			if _, fault := r.writeInfer(q, nil); fault != nil {
				t.Fatal(fault)
			}
		}
	})
}
