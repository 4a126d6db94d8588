package server_test

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir/api/apitest"
	"weir/api/predict/oip"
	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/server/servertest"
)

// infer asks the built-in trees over gRPC.
func infer(ctx context.Context, s *servertest.Server, creds credentials.TransportCredentials) (*oip.ModelInferResponse, error) {
	s.T.Helper()
	conn, err := grpc.NewClient(s.Find(`"grpc":"(\S+?)"`, &s.Errs), grpc.WithTransportCredentials(creds))
	if err != nil {
		s.T.Fatal(err)
	}
	defer conn.Close()
	var row []byte
	for _, v := range []float32{5.1, 3.5, 1.4, 0.2} {
		row = binary.LittleEndian.AppendUint32(row, math.Float32bits(v))
	}
	return oip.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, &oip.ModelInferRequest{
		ModelName: defaultmodel.IrisName, RawInputContents: [][]byte{row},
		Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "FP32", Shape: []int64{1, 4}}},
	})
}

func TestTheBuiltInTreesAnswerOverGRPC(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) { c.Server.GRPCAddress = "127.0.0.1:0" })
	got, err := infer(t.Context(), s, insecure.NewCredentials())
	if err != nil || got.GetModelName() != defaultmodel.IrisName || len(got.GetRawOutputContents()) != len(got.GetOutputs()) {
		t.Errorf("%v, %v", got, err)
	}
}

// gRPC asks its callers as the API does: by a key, or by a tenant's certificate.
func TestCallersOverGRPC(t *testing.T) {
	p := apitest.NewPKI(t)
	p.Issue("acme", "acme")
	s := servertest.Start(t, func(c *configs.Config) {
		acmeOverTLS(p)(c)
		c.Server.GRPCAddress = "127.0.0.1:0"
	})
	over := func(file string) credentials.TransportCredentials {
		return credentials.NewTLS(p.ClientTLS(file))
	}
	if _, err := infer(t.Context(), s, over("acme")); err != nil {
		t.Errorf("the tenant's certificate: %v", err)
	}
	if _, err := infer(t.Context(), s, over("")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("no proof: %v", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer sk-0123456789")
	if _, err := infer(ctx, s, over("")); err != nil {
		t.Errorf("a key: %v", err)
	}
	if _, err := infer(ctx, s, insecure.NewCredentials()); err == nil {
		t.Error("plain text was answered")
	}
}
