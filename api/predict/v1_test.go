package predict

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"weir/internal/tensor"
)

func TestPredictV1(t *testing.T) {
	r := standard(t)
	const path = "/v1/models/sums:predict"
	for _, c := range []struct{ body, want string }{
		{`{"instances":[[1,2,3,4]]}`, `{"predictions":[10.0]}`},
		{`{"signature_name":"serving_default","instances":[[1,2,3,4],[0.5,0,0,0]]}`, `{"predictions":[10.0,0.5]}`},
		{" {\n\"instances\" : [ [ 1 ,\t2e0, 3.0 , 4 ] ] } ", `{"predictions":[10.0]}`},
		{`{"inputs":[[1,2,3,4]]}`, `{"outputs":[10.0]}`},
		{`{"inputs":{"input":[[1,2,3,4]]}}`, `{"outputs":[10.0]}`},
		{`{"instances":[{"input":[1,2,3,4]},{"input":[0,0,0,-1]}]}`, `{"predictions":[10.0,-1.0]}`},
		{`{"instances":[[true,false,3,4]]}`, `{"predictions":[8.0]}`},
		{`{"instances":[{"input":[true,2,false,4]}]}`, `{"predictions":[7.0]}`},
		{`{"inputs":[[true,2,3,4]]}`, `{"outputs":[10.0]}`},
		{`{"instances":[[NaN,1,2,3],[Infinity,1,2,3],[-Infinity,0,0,0],[null,0,0,0],[1e30,1e8,0,0]]}`,
			`{"predictions":[NaN,Infinity,-Infinity,NaN,1e+30]}`},
	} {
		r.want(200, c.want, "POST", path, c.body)
		r.want(200, c.want, "POST", "/v1/models/sums/versions/3:predict", c.body)
	}
	res, _ := r.do("POST", path, `{"instances":[[1,2,3,4]],"extra":{"a":[1,"]"]}}`)
	if got := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || got != `ignored "extra"` {
		t.Errorf("%d, warnings %q", res.StatusCode, got)
	}
}

func TestPredictV1Columns(t *testing.T) {
	r := standard(t)
	const path = "/v1/models/echo:predict"
	r.want(200, `{"predictions":[{"f":[1.0,2.5,3.0],"s":"ä\"b"},{"f":[4.0,5.0,6.0],"s":{"b64":"/w=="}}]}`, "POST", path,
		`{"instances":[{"f":[1,2.5,3],"s":"ä\"b"},{"s":{"b64":"/w=="},"f":[4,5,6]}]}`)
	r.want(200, `{"outputs":{"i":[-9223372036854775808,9],"y":[true,false],"u":[65535,0]}}`, "POST", path,
		`{"inputs":{"i":[-9223372036854775808,9],"y":[true,0],"u":[65535,0]}}`)
	one := newRig(t, config(t, newModels(echo(tensor.Spec{Name: "blob_bytes", Type: tensor.Bytes, Shape: []int64{-1}}))))
	one.want(200, `{"predictions":[{"b64":"aGk="},{"b64":"/w=="}]}`, "POST", path, `{"instances":["hi",{"b64":"/w=="}]}`)
	one.want(200, `{"predictions":[{"b64":"aGk="}]}`, "POST", path, `{"instances":[{"b64":"aGk="}]}`)
	scalar := newRig(t, config(t, newModels(echo(tensor.Spec{Name: "x", Type: tensor.Float64, Shape: []int64{-1, 1}}))))
	scalar.want(200, `{"predictions":[[1.0],[0.1]]}`, "POST", path, `{"instances":[1,0.1]}`)
	deep := newRig(t, config(t, newModels(echo(tensor.Spec{Name: "x", Type: tensor.Int32, Shape: []int64{-1, 2, 2}}))))
	deep.want(200, `{"predictions":[[[1,2],[3,4]],[[5,6],[7,8]]]}`, "POST", path, `{"instances":[[[1,2],[3,4]],[[5,6],[7,8]]]}`)
}

func TestPredictV1Refusals(t *testing.T) {
	r := standard(t)
	for _, c := range []struct {
		status     int
		path, body string
		says       string
	}{
		{404, "/v1/models/none:predict", `{"instances":[[1]]}`, `model \"none\" is not served`},
		{404, "/v1/models/sums/versions/4:predict", `{"instances":[[1]]}`, `of version \"4\"`},
		{501, "/v1/models/sums:classify", `{}`, "use :predict"},
		{501, "/v1/models/sums:regress", `{}`, "use :predict"},
		{400, "/v1/models/sums:predict", ``, "ends after 0 bytes"},
		{400, "/v1/models/sums:predict", `{`, "ends after 1 bytes"},
		{400, "/v1/models/sums:predict", `{}`, "neither instances"},
		{400, "/v1/models/sums:predict", `[]`, "must be an object"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,3,4]]} x`, "must be the end"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,3,4]],"inputs":[]}`, "both instances and inputs"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,3,4]],"instances":[]}`, "comes twice"},
		{400, "/v1/models/sums:predict", `{"instances":5}`, "must be a list of rows"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,3,4],[1,2]]}`, "all must have one size"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,3,4],5]}`, "inside of 2 arrays"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,[3],4]]}`, "must be a number"},
		{400, "/v1/models/sums:predict", `{"instances":[["1",2,3,4]]}`, "must be a number"},
		{400, "/v1/models/sums:predict", `{"instances":[[01,2,3,4]]}`, "must be a number"},
		{400, "/v1/models/sums:predict", `{"instances":[[1e99,2,3,4]]}`, "that FP32 holds"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,3]]}`, "the model takes [-1 4]"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,3,4]],"signature_name":"other"}`, "one signature"},
		{400, "/v1/models/sums:predict", `{"instances":[[1,2,3,4]],"extra":[}`, "must be a value"},
		{400, "/v1/models/sums:predict", `{"instances":` + strings.Repeat("[", 100) + `1`, "inside of one another"},
		{400, "/v1/models/sums:predict", `{"instances":[` + strings.Repeat("[1,2,3,4],", 1000) + `[1,2,3,4]]}`, "at most 1000 at once"},
		{400, "/v1/models/echo:predict", `{"instances":[[1,2]]}`, "values need names"},
		{400, "/v1/models/echo:predict", `{"instances":[{"d":1},{"i":1}]}`, "the same names"},
		{400, "/v1/models/echo:predict", `{"instances":[{"d":1,"i":1},{"d":1}]}`, "the same names"},
		{400, "/v1/models/echo:predict", `{"instances":[{"d":1},{"d":1,"i":2}]}`, "the same names"},
		{400, "/v1/models/echo:predict", `{"instances":[{"d":1,"d":2}]}`, "comes twice"},
		{400, "/v1/models/echo:predict", `{"instances":[{"b":128}]}`, "that INT8 holds"},
		{400, "/v1/models/echo:predict", `{"instances":[{"i":1.0}]}`, "that INT64 holds"},
		{400, "/v1/models/echo:predict", `{"instances":[{"y":2}]}`, "true, false, 1 or 0"},
		{400, "/v1/models/echo:predict", `{"instances":[{"s":{"b64":"*"}}]}`, "no base64"},
	} {
		res, got := r.do("POST", c.path, c.body)
		if res.StatusCode != c.status || !strings.HasPrefix(got, `{"error":"`) || !strings.Contains(got, c.says) {
			t.Errorf("%s %s: %d %s; want %d with %q", c.path, c.body, res.StatusCode, got, c.status, c.says)
		}
	}
	if res, _ := r.do("GET", "/v1/models/sums:predict", ""); res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", res.StatusCode, res.Header)
	}
}

// What is not of this package reaches the handler behind: OpenAI's models too, though
// their path is that of V1's status.
func TestOthersPass(t *testing.T) {
	r := standard(t)
	for _, path := range []string{"/v1/chat/completions", "/v1/models", "/v1/models/llama", "/v1/models/org/llama:8b", "/v2/rerank", "/v2/embed",
		"/health", "/v1/models/sums/../x:predict", "/v2x"} {
		if res, got := r.do("GET", path, ""); res.StatusCode != 418 {
			t.Errorf("%s: %d %s", path, res.StatusCode, got)
		}
	}
	for _, path := range []string{"/v2/trace/setting", "/v2/models/sums/none", "/v2/repository/models/sums/other", "/v2/systemsharedmemory/status"} {
		if res, got := r.do("GET", path, ""); res.StatusCode != 404 || !strings.HasPrefix(got, `{"error":"there is no `) {
			t.Errorf("%s: %d %s", path, res.StatusCode, got)
		}
	}
}

func TestStatusV1(t *testing.T) {
	r := standard(t)
	r.want(200, `{"status":"alive"}`+"\n", "GET", "/", "")
	res, got := r.do("GET", "/v1/models/sums", "")
	for _, part := range []string{`"name":"sums","ready":true`, `"version":"3","state":"AVAILABLE","status":{"error_code":"OK","error_message":""}`, `"id":"sums","object":"model"`} {
		if res.StatusCode != 200 || !strings.Contains(got, part) {
			t.Errorf("%d %s lacks %s", res.StatusCode, got, part)
		}
	}
	if err := r.models.Unload(t.Context(), "sums", ""); err != nil {
		t.Fatal(err)
	}
	res, got = r.do("GET", "/v1/models/sums/versions/3", "")
	if res.StatusCode != 503 || !strings.Contains(got, `"ready":false`) || !strings.Contains(got, `"state":"END"`) {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	if res, got := r.do("GET", "/v1/models/sums/versions/9", ""); res.StatusCode != 503 && res.StatusCode != 404 {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	if res, got := r.do("POST", "/v1/models/sums:predict", `{"instances":[[1,2,3,4]]}`); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

// Bytes that are no request have no path of which the form of an error could be told.
func TestBytesThatAreNoRequestGetAnErrorObject(t *testing.T) {
	r := standard(t)
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("POST /v1/models/sums:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 400 || !strings.Contains(string(body), `"code":"malformed_request"`) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}
