package bench

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"weir/api/predict/oip"
)

// grpcSender is one connection over gRPC.
type grpcSender struct {
	conn     *grpc.ClientConn
	client   oip.GRPCInferenceServiceClient
	requests []*oip.ModelInferRequest
	key      string
}

func grpcDialer(t *PredictTarget, l *PredictLoad, rows [][]float32) func(context.Context) (sender, error) {
	requests := make([]*oip.ModelInferRequest, len(rows))
	for i := range rows {
		requests[i] = &oip.ModelInferRequest{
			ModelName: t.Model, RawInputContents: [][]byte{rawFloats(rows[i])},
			Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: t.Input, Datatype: "FP32", Shape: []int64{int64(l.Rows), int64(t.Columns)}}},
		}
	}
	return func(context.Context) (sender, error) {
		conn, err := grpc.NewClient(t.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		return &grpcSender{conn, oip.NewGRPCInferenceServiceClient(conn), requests, t.APIKey}, nil
	}
}

func (s *grpcSender) close() { _ = s.conn.Close() }

func (s *grpcSender) send(ctx context.Context, i int) error {
	if s.key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.key)
	}
	_, err := s.client.ModelInfer(ctx, s.requests[i])
	return err
}
