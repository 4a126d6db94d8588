package predict

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/api/edge"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

func TestInferV2(t *testing.T) {
	r := standard(t)
	const path = "/v2/models/sums/infer"
	answer := func(values string, n int) string {
		return fmt.Sprintf(`{"model_name":"sums","model_version":"3","outputs":[{"name":"output","datatype":"FP32","shape":[%d],"data":[%s]}]}`, n, values)
	}
	for _, body := range []string{
		`{"inputs":[{"name":"input","shape":[2,4],"datatype":"FP32","data":[1,2,3,4,0,0,0,0.5]}]}`,
		`{"inputs":[{"name":"input","shape":[2,4],"datatype":"FP32","data":[[1,2,3,4],[0,0,0,0.5]]}]}`,
		`{"inputs":[{"data":[[1,2,3,4],[0,0,0,0.5]],"datatype":"FP32","shape":[2,4],"name":"input"}],"outputs":[{"name":"output"}]}`,
		`{"inputs":[{"name":"input","shape":["2",4],"datatype":"FP32","data":[1,2,3,4,0,0,0,0.5],"parameters":{}}],"parameters":{"priority":1,"timeout":"60000000"}}`,
	} {
		r.want(200, answer("10.0,0.5", 2), "POST", path, body)
		r.want(200, answer("10.0,0.5", 2), "POST", "/v2/models/sums/versions/3/infer", body)
	}
	r.want(200, `{"model_name":"sums","model_version":"3","id":"ä 7","outputs":[{"name":"output","datatype":"FP32","shape":[0],"data":[]}]}`, "POST", path,
		`{"id":"ä 7","inputs":[{"name":"input","shape":[0,4],"datatype":"FP32","data":[]}]}`)
	r.want(200, `{"model_name":"echo","model_version":"1","outputs":[{"name":"y","datatype":"BOOL","shape":[2],"data":[true,false]},`+
		`{"name":"s","datatype":"BYTES","shape":[2,1],"data":["a","é\n"]},{"name":"d","datatype":"FP64","shape":[3],"data":[0.1,-1e-07,123456789.0]}]}`,
		"POST", "/v2/models/echo/infer", `{"inputs":[{"name":"s","shape":[2,1],"datatype":"BYTES","data":["a","\u00e9\n"]},`+
			`{"name":"d","shape":[3],"datatype":"FP64","data":[0.1,-1e-7,123456789]},{"name":"y","shape":[2],"datatype":"BOOL","data":[true,false]}],`+
			`"outputs":[{"name":"y"},{"name":"s"},{"name":"d"}]}`)
}

// split is a body of JSON and binary data, and the header that tells the one from the
// other.
func withBinary(json string, data ...[]byte) (body string, fields []string) {
	return json + string(bytes.Join(data, nil)), []string{headerLength, strconv.Itoa(len(json))}
}

func floatBytes(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func TestBinaryTensors(t *testing.T) {
	r := standard(t)
	body, fields := withBinary(`{"inputs":[{"name":"input","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}],"parameters":{"binary_data_output":true}}`,
		floatBytes(1, 2, 3, 4))
	res, got := r.do("POST", "/v2/models/sums/infer", body, fields...)
	want := `{"model_name":"sums","model_version":"3","outputs":[{"name":"output","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]}`
	if res.Header.Get(headerLength) != strconv.Itoa(len(want)) || got != want+string(floatBytes(10)) || res.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%v %q", res.Header, got)
	}
	// Strings and a bool in binary, a float beside them in JSON; one output is JSON.
	body, fields = withBinary(`{"inputs":[{"name":"s","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":11}},{"name":"f","shape":[1,3],"datatype":"FP32","data":[1,2,3]},`+
		`{"name":"y","shape":[1],"datatype":"BOOL","parameters":{"binary_data_size":1}}],"outputs":[{"name":"f"},{"name":"s","parameters":{"binary_data":true}},{"name":"y","parameters":{"binary_data":false}}]}`,
		[]byte("\x03\x00\x00\x00abc\x00\x00\x00\x00"), []byte{1})
	res, got = r.do("POST", "/v2/models/echo/infer", body, fields...)
	want = `{"model_name":"echo","model_version":"1","outputs":[{"name":"f","datatype":"FP32","shape":[1,3],"data":[1.0,2.0,3.0]},` +
		`{"name":"s","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":11}},{"name":"y","datatype":"BOOL","shape":[1],"data":[true]}]}`
	if res.StatusCode != 200 || got != want+"\x03\x00\x00\x00abc\x00\x00\x00\x00" {
		t.Errorf("%d %q", res.StatusCode, got)
	}
	// A raw request of two rows.
	_, got = r.do("POST", "/v2/models/sums/infer", string(floatBytes(1, 2, 3, 4, 5, 6, 7, 8)), headerLength, "0")
	if want = `{"model_name":"sums","model_version":"3","outputs":[{"name":"output","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]}`; got != want+string(floatBytes(10, 26)) {
		t.Errorf("raw: %q", got)
	}
}

func TestV2Refusals(t *testing.T) {
	r := standard(t)
	input := func(rest string) string { return `{"inputs":[{"name":"input",` + rest + `}]}` }
	ok := `"shape":[1,4],"datatype":"FP32","data":[1,2,3,4]`
	for _, c := range []struct {
		status     int
		body, says string
		length     string
	}{
		{400, ``, "ends after 0 bytes", ""},
		{400, `{"inputs":[]}`, "no inputs", ""},
		{400, `{"inputs":[{}]}`, "lacks its name", ""},
		{400, input(`"shape":[1,4],"data":[1,2,3,4]`), "its datatype", ""},
		{400, input(`"shape":[1,4],"datatype":"FP99","data":[]`), `datatype \"FP99\" is unknown`, ""},
		{400, input(`"shape":[1,4],"datatype":"FP16","data":[1,2,3,4]`), "JSON cannot carry", ""},
		{400, input(`"shape":[1,4],"datatype":"FP32","data":[1,2,3]`), "has 3 elements", ""},
		{400, input(`"shape":[1,4],"datatype":"FP32","data":[1,2,3,4,5]`), "has 5 elements", ""},
		{400, input(`"shape":[2,4],"datatype":"FP32","data":[[1,2],[3,4],[5,6],[7,8]]`), "of shape [4 2]", ""},
		{400, input(`"shape":[-1,4],"datatype":"FP32","data":[1,2,3,4]`), `size 0 in the shape of input \"input\" is -1; it must be a whole number`, ""},
		{400, input(`"shape":[99999999999,4],"datatype":"FP32","data":[1,2,3,4]`), "more elements than the body can hold", ""},
		{400, input(`"shape":[4611686018427387904,4],"datatype":"FP32","data":[1,2,3,4]`), "more elements than the body can hold", ""},
		{400, input(`"shape":[1,4],"datatype":"FP32"`), "neither data", ""},
		{400, `{"inputs":[{"name":"input",` + ok + `},{"name":"input",` + ok + `}]}`, "comes twice", ""},
		{400, `{"inputs":[{"name":"input",` + ok + `}],"outputs":[{"name":"none"}]}`, "has no output", ""},
		{400, `{"inputs":[{"name":"input",` + ok + `}],"outputs":[{"name":"output"},{"name":"output"}]}`, "comes twice", ""},
		{400, `{"inputs":[{"name":"input",` + ok + `}],"parameters":{"sequence_id":7}}`, `sequence_id\" is not supported`, ""},
		{400, `{"inputs":[{"name":"input",` + ok + `,"parameters":{"shared_memory_region":"x"}}]}`, "send the tensor", ""},
		{400, `{"inputs":[{"name":"input",` + ok + `}],"parameters":{"priority":-1}}`, "priority is", ""},
		{400, `{"inputs":[{"name":"input","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}]}`, "0 bytes follow", ""},
		{400, `{"inputs":[{"name":"input",` + ok + `}]}extra`, "follow the inputs", strconv.Itoa(len(`{"inputs":[{"name":"input",` + ok + `}]}`))},
		{400, `{}`, "must be a number of bytes", "99"}, {400, `{}`, "must be a number of bytes", "-1"}, {400, `{}`, "must be a number of bytes", "x"},
		{400, "abc", "takes 0", "0"},
		{400, input(`"shape":[1,5],"datatype":"FP32","data":[1,2,3,4,5]`), "model takes", ""},
	} {
		var fields []string
		if c.length != "" {
			fields = []string{headerLength, c.length}
		}
		res, got := r.do("POST", "/v2/models/sums/infer", c.body, fields...)
		if res.StatusCode != c.status || !strings.HasPrefix(got, `{"error":"`) || !strings.Contains(got, c.says) {
			t.Errorf("%s: %d %s; want %d with %q", c.body, res.StatusCode, got, c.status, c.says)
		}
	}
	body, fields := withBinary(`{"inputs":[{"name":"s","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":6}}]}`, []byte("\x09\x00\x00\x00ab"))
	if res, got := r.do("POST", "/v2/models/echo/infer", body, fields...); res.StatusCode != 400 || !strings.Contains(got, "is not 2 byte strings") {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	body, fields = withBinary(`{"inputs":[{"name":"y","shape":[2],"datatype":"BOOL","parameters":{"binary_data_size":2}}]}`, []byte("\x01\x02"))
	if res, got := r.do("POST", "/v2/models/echo/infer", body, fields...); res.StatusCode != 400 || !strings.Contains(got, "BOOL has 0 and 1") {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

func TestServerAndModelsV2(t *testing.T) {
	r := standard(t)
	r.want(200, `{"live":true,"ready":true}`+"\n", "GET", "/v2/health/live", "")
	r.want(200, `{"live":true,"ready":true}`+"\n", "GET", "/v2/health/ready", "")
	r.want(200, `{"models":["sums","echo"]}`+"\n", "GET", "/v2/models", "")
	if res, got := r.do("GET", "/v2", ""); res.StatusCode != 200 || !strings.Contains(got, "binary_tensor_data") || !strings.Contains(got, `"name":"weir"`) {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	r.want(200, `{"name":"sums","versions":["3"],"platform":"test","inputs":[{"name":"input","datatype":"FP32","shape":[-1,4]}],"outputs":[{"name":"output","datatype":"FP32","shape":[-1]}]}`+"\n",
		"GET", "/v2/models/sums", "")
	r.want(200, `{"name":"sums","ready":true}`+"\n", "GET", "/v2/models/sums/ready", "")
	r.want(200, `{"backend":"weir","input":[{"name":"input","data_type":"TYPE_FP32","dims":[4]}],"max_batch_size":1000,"name":"sums","output":[{"name":"output","data_type":"TYPE_FP32","dims":[1]}],"platform":"test"}`+"\n",
		"GET", "/v2/models/sums/versions/3/config", "")
	for _, path := range []string{"/v2/models/none", "/v2/models/none/ready", "/v2/models/sums/versions/9"} {
		if res, got := r.do("GET", path, ""); res.StatusCode != 404 || !strings.HasPrefix(got, `{"error":`) {
			t.Errorf("%s: %d %s", path, res.StatusCode, got)
		}
	}
}

func TestRepository(t *testing.T) {
	r := standard(t)
	r.want(200, `[{"name":"sums","version":"3","state":"READY","reason":""},{"name":"echo","version":"1","state":"READY","reason":""}]`+"\n", "POST", "/v2/repository/index", "")
	r.want(200, "", "POST", "/v2/repository/models/sums/unload", `{"parameters":{"unload_dependents":false}}`)
	r.want(503, `{"name":"sums","ready":false}`+"\n", "GET", "/v2/models/sums/ready", "")
	r.want(200, `[{"name":"echo","version":"1","state":"READY","reason":""}]`+"\n", "POST", "/v2/repository/index", `{"ready":true}`)
	r.want(200, "", "POST", "/v2/repository/models/sums/load", "{}")
	r.want(200, `{"name":"sums","ready":true}`+"\n", "GET", "/v2/models/sums/ready", "")
	if res, got := r.do("POST", "/v2/repository/models/none/load", ""); res.StatusCode != 404 {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	if res, got := r.do("POST", "/v2/repository/models/sums/load", `{"parameters":{"config":"{}"}}`); res.StatusCode != 400 || !strings.Contains(got, "config") {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

func TestClassification(t *testing.T) {
	r := standard(t)
	r.want(200, `{"model_name":"echo","model_version":"1","outputs":[{"name":"f","datatype":"BYTES","shape":[2,2],"data":["0.500000:1:one","0.300000:2:two","1.000000:0:zero","0.000000:1:one"]}]}`,
		"POST", "/v2/models/echo/infer", `{"inputs":[{"name":"f","shape":[2,3],"datatype":"FP32","data":[0.2,0.5,0.3,1,0,NaN]}],"outputs":[{"name":"f","parameters":{"classification":2}}]}`)
	r.want(200, `{"model_name":"echo","model_version":"1","outputs":[{"name":"i","datatype":"BYTES","shape":[3],"data":["9.000000:2","7.000000:0","-1.000000:1"]}]}`,
		"POST", "/v2/models/echo/infer", `{"inputs":[{"name":"i","shape":[3],"datatype":"INT64","data":[7,-1,9]}],"outputs":[{"name":"i","parameters":{"classification":5}}]}`)
}

// Requests that shared a batch count as one of its size, and their times add up.
func TestBatchStatistics(t *testing.T) {
	var s statistics
	m := sums()
	arrived := time.Now()
	count := func(rows int64, batch int, computed time.Duration) {
		j := &job{Exchange: &edge.Exchange{Arrived: arrived}, about: &m.about, parsed: arrived.Add(2), computed: arrived.Add(2 + computed + 3)}
		j.p.Batch, j.p.Computed = batch, computed
		s.count(j, rows, true)
	}
	for range 3 { // three batches of 7 rows, of three requests each
		count(1, 7, 10)
		count(2, 7, 20)
		count(4, 7, 40)
	}
	count(1, 1, 5)
	count(1<<20, 1<<20, 5)
	got := s.ofModel(m.about.Name, m.about.Version)
	want := []batchStats{
		{1, durationJSON{1, 2}, durationJSON{1, 5}, durationJSON{1, 3}},
		{4, durationJSON{3, 18}, durationJSON{3, 210}, durationJSON{3, 27}},
		{1 << 15, durationJSON{1, 2}, durationJSON{1, 5}, durationJSON{1, 3}},
	}
	if !slices.Equal(got.Batches, want) {
		t.Errorf("%+v, want %+v", got.Batches, want)
	}
	if got.ExecutionCount != 5 || got.InferenceCount != 22+1<<20 || got.Inference.Infer != (durationJSON{11, 220}) {
		t.Errorf("%+v", got)
	}
}

func TestStatistics(t *testing.T) {
	r := standard(t)
	for range 3 {
		r.do("POST", "/v1/models/sums:predict", `{"instances":[[1,2,3,4],[1,2,3,4]]}`)
	}
	r.do("POST", "/v1/models/sums:predict", `{"instances":[[1,2,3]]}`)
	_, got := r.do("GET", "/v2/models/sums/stats", "")
	for _, part := range []string{`"inference_count":6,"execution_count":3`, `"success":{"count":3,`, `"fail":{"count":1,`, `"compute_infer":{"count":3,"ns":3000}`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s lacks %s", got, part)
		}
	}
	if !strings.Contains(got, `"batch_stats":[{"batch_size":2,"compute_input":{"count":3,`) {
		t.Errorf("%s has not three batches of two rows", got)
	}
	if _, got := r.do("GET", "/v2/models/stats", ""); !strings.Contains(got, `"name":"echo"`) || !strings.Contains(got, `"name":"sums"`) {
		t.Error(got)
	}
}

func TestCodedBodies(t *testing.T) {
	r := standard(t)
	body := `{"instances":[[1,2,3,4]]}`
	pack := func(w io.WriteCloser, b *bytes.Buffer, text string) string {
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return b.String()
	}
	var b bytes.Buffer
	gz := pack(gzip.NewWriter(&b), &b, body)
	b = bytes.Buffer{}
	deflated := pack(zlib.NewWriter(&b), &b, body)
	b = bytes.Buffer{}
	bomb := pack(gzip.NewWriter(&b), &b, strings.Repeat(" ", 2<<20))
	const path = "/v1/models/sums:predict"
	r.want(200, `{"predictions":[10.0]}`, "POST", path, gz, "Content-Encoding", "gzip")
	r.want(200, `{"predictions":[10.0]}`, "POST", path, deflated, "Content-Encoding", "deflate")
	r.want(200, `{"predictions":[10.0]}`, "POST", path, body, "Content-Encoding", "identity")
	for _, c := range []struct {
		body, coding string
		status       int
	}{{bomb, "gzip", 413}, {"xx", "gzip", 400}, {gz[:len(gz)-4], "gzip", 400}, {deflated[:10], "deflate", 400}, {body, "br", 415}, {gz, "gzip, gzip", 415}} {
		if res, got := r.do("POST", path, c.body, "Content-Encoding", c.coding); res.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", c.coding, res.StatusCode, got, c.status)
		}
	}
}

// Rows count as tokens; limits, classes and deadlines of tenants hold, and models that
// a tenant may not use do not exist for it.
func TestTenants(t *testing.T) {
	rest := tenant.New(tenant.Rest)
	rest.Limits = quota.Limits{TokensPerMinute: 10}
	rest.HighestClass, rest.Class = inference.Default, inference.Default
	rest.QueueTimeout = time.Minute
	rest.Models = []string{"seen", "sums"}
	var got router.Prediction
	seen := sums()
	do := seen.do
	seen.about.Name = "seen"
	seen.do = func(ctx context.Context, p *router.Prediction) error {
		got = *p
		return do(ctx, p)
	}
	c := config(t, newModels(seen, echo(everyType...)), rest)
	var finished []edge.RequestFinish
	var refused []edge.Refusal
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished = append(finished, f) }
	c.Hooks.OnRefused = func(r edge.Refusal) { refused = append(refused, r) }
	r := newRig(t, c)
	row := `{"instances":[[1,2,3,4],[1,2,3,4],[1,2,3,4],[1,2,3,4]]}`
	res, body := r.do("POST", "/v1/models/seen:predict", row, "X-Weir-Class", "interactive", "X-Weir-Deadline-Ms", "5000", "X-Request-Id", "mine", "X-Weir-Schema", "abc")
	if res.StatusCode != 200 || res.Header.Get("X-Ratelimit-Remaining-Tokens") != "6" || res.Header.Get("X-Request-Id") != "mine" {
		t.Fatalf("%d %s %v", res.StatusCode, body, res.Header)
	}
	if due := time.Until(got.DoneBy); got.Class != inference.Default || due < time.Second || due > 5*time.Second || got.Schema != "abc" || got.ID == "" {
		t.Errorf("prediction: %+v", got)
	}
	f := finished[0]
	if f.PromptTokens != 4 || f.Model != "seen" || f.Version != "3" || f.Endpoint != "/v1/models/{model}:predict" || f.Status != 200 || len(f.Reasons) != 1 || f.Compute != time.Microsecond {
		t.Errorf("finish: %+v", f)
	}
	r.do("POST", "/v2/models/seen/infer", `{"inputs":[{"name":"input","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}],"parameters":{"priority":5,"timeout":2000000}}`)
	if due := time.Until(got.DoneBy); got.Class != inference.Batch || due > 2*time.Second {
		t.Errorf("prediction: %+v", got)
	}
	if wait := time.Until(got.WaitUntil); wait > time.Minute || wait < 50*time.Second {
		t.Errorf("it may wait for %v, want the tenant's minute", wait)
	}
	res, body = r.do("POST", "/v1/models/seen:predict", `{"instances":[[1,2,3,4],[1,2,3,4],[1,2,3,4],[1,2,3,4],[1,2,3,4],[1,2,3,4]]}`)
	if res.StatusCode != 429 || res.Header.Get("X-Weir-Reason") != "rate_limit_exceeded" || res.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if len(refused) != 1 || !refused[0].Early || refused[0].Code != "rate_limit_exceeded" {
		t.Errorf("refused: %+v", refused)
	}
	for _, path := range []string{"/v2/models/echo", "/v2/models/echo/stats"} {
		if res, body := r.do("GET", path, ""); res.StatusCode != 404 {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
	r.want(200, `{"models":["seen"]}`+"\n", "GET", "/v2/models", "")
	r.models.absent = map[string]bool{"echo": true, "seen": true}
	if res, body := r.do("GET", "/v2/models/seen", ""); res.StatusCode != 503 {
		t.Errorf("its own model, unloaded: %d %s", res.StatusCode, body)
	}
	if res, body := r.do("GET", "/v2/models/echo", ""); res.StatusCode != 404 || strings.Contains(body, "loaded") {
		t.Errorf("a model of others, unloaded: %d %s", res.StatusCode, body)
	}
}

func TestCallersAndScopes(t *testing.T) {
	c := config(t, newModels(sums()))
	d, err := tenant.NewDirectory(nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Callers, err = tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: d, StaticKeys: []string{"sk-0123456789"}}); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, c)
	row := `{"instances":[[1,2,3,4]]}`
	if res, got := r.do("POST", "/v1/models/sums:predict", row); res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != "Bearer" || !strings.HasPrefix(got, `{"error":"`) {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	r.want(200, `{"predictions":[10.0]}`, "POST", "/v1/models/sums:predict", row, "Authorization", "Bearer sk-0123456789")
	r.want(200, `{"live":true,"ready":true}`+"\n", "GET", "/v2/health/ready", "")
	if res, got := r.do("POST", "/v2/repository/models/sums/unload", "", "Authorization", "Bearer sk-0123456789"); res.StatusCode != 403 {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

// Without keys, callers from other machines are no operators.
func TestNoOneUnloadsModelsOfAnInsecureServer(t *testing.T) {
	for _, insecure := range []bool{false, true} {
		c := config(t, newModels(sums()))
		c.Insecure = insecure
		r := newRig(t, c)
		res, got := r.do("POST", "/v2/repository/models/sums/unload", "")
		if want := map[bool]int{false: 200, true: 403}[insecure]; res.StatusCode != want {
			t.Errorf("insecure %v: %d %s, want %d", insecure, res.StatusCode, got, want)
		}
	}
}

// The errors of predictors have the statuses that the protocols want, and a panic ends
// its request alone.
func TestFaults(t *testing.T) {
	var err error
	f := sums()
	f.do = func(context.Context, *router.Prediction) error {
		if err == nil {
			panic("secret")
		}
		return fmt.Errorf("wrapped: %w", err)
	}
	r := newRig(t, config(t, newModels(f)))
	for want, cause := range map[int]error{
		400: inference.ErrInvalid, 503: inference.ErrQueueFull, 429: inference.ErrTenantQueueFull, 408: inference.ErrDeadline, 500: nil,
	} {
		err = cause
		res, got := r.do("POST", "/v1/models/sums:predict", `{"instances":[[1,2,3,4]]}`)
		if res.StatusCode != want || strings.Contains(got, "secret") {
			t.Errorf("%v: %d %s, want %d", cause, res.StatusCode, got, want)
		}
	}
}

// A client that hangs up ends its prediction's context, and so does the deadline.
func TestHangUpAndDeadline(t *testing.T) {
	begun, ended := make(chan struct{}, 2), make(chan error, 1)
	f := sums()
	f.do = func(ctx context.Context, _ *router.Prediction) error {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	c := config(t, newModels(f))
	hungUp := make(chan string, 1)
	c.Hooks.OnDisconnect = func(model string) { hungUp <- model }
	r := newRig(t, c)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	body := `{"instances":[[1,2,3,4]]}`
	fmt.Fprintf(conn, "POST /v1/models/sums:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	<-begun
	conn.Close()
	if err := <-ended; err != context.Canceled || <-hungUp != "sums" { //nolint:errorlint // Err's own value
		t.Errorf("hang-up: %v", err)
	}
	res, got := r.do("POST", "/v1/models/sums:predict", body, "X-Weir-Deadline-Ms", "20")
	if err := <-ended; err != context.DeadlineExceeded || res.StatusCode != 408 { //nolint:errorlint // Err's own value
		t.Errorf("deadline: %v, %d %s", err, res.StatusCode, got)
	}
}

func TestNotesOfAnswers(t *testing.T) {
	f := sums()
	do := f.do
	f.do = func(ctx context.Context, p *router.Prediction) error {
		p.Notes = []router.Note{{Name: "defaulted", Value: "age,income"}}
		return do(ctx, p)
	}
	r := newRig(t, config(t, newModels(f)))
	res, got := r.do("POST", "/v2/models/sums/infer", `{"inputs":[{"name":"input","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}`)
	if !strings.Contains(got, `"parameters":{"defaulted":"age,income"}`) || res.Header.Get("X-Weir-Defaulted") != "age,income" {
		t.Errorf("%v %s", res.Header, got)
	}
}

// Every float is written so that it reads back as the same.
func TestFloatsSurvive(t *testing.T) {
	for _, f := range []float64{0, math.Copysign(0, -1), 1, 0.1, 1e16, 1e15, -1e-6, 1e-7, 5e-324, math.MaxFloat64, 1.0 / 3, 123456789012345680} {
		text := appendFloat(nil, f, 64)
		d, rest, ok := readDecimal(text)
		if got, fits := d.float64(); !ok || len(rest) > 0 || !fits || math.Float64bits(got) != math.Float64bits(f) || d.integer {
			t.Errorf("%v is written %s", f, text)
		}
		text = appendFloat(nil, float64(float32(f)), 32)
		d, _, _ = readDecimal(text)
		if got, fits := d.float32(); !math.IsInf(float64(float32(f)), 0) && (!fits || math.Float32bits(got) != math.Float32bits(float32(f))) {
			t.Errorf("float32 %v is written %s", f, text)
		}
	}
}
