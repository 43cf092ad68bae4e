package status_test

import (
	"context"
	"fmt"
	"log"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/status"
)

// An alert of one's own: messages whose destination was gone.
func ExampleReader_Read() {
	ctx := context.Background()
	cfg, err := backend.Load("delayer.yaml")
	if err != nil {
		log.Fatal(err)
	}
	r, err := status.Open(ctx, status.Config{Backend: cfg})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	s, err := r.Read(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if s.Unroutable != nil && s.Unroutable.Messages > 0 {
		fmt.Println(s.Unroutable.Messages, "messages in", s.Unroutable.Name)
	}
	for _, u := range s.Unknown {
		fmt.Println("not known:", u.What, u.Why)
	}
}
