// Issuer issues ID tokens for tests: the OpenID provider of zitadel's library with its example storage, over TLS. A flag
// sets the lifetime of tokens. It prints its URL when it listens, and exits when standard input ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// store is the example storage with another lifetime of ID tokens.
type store struct {
	*storage.Storage
	lifetime time.Duration
}

type client struct {
	op.Client
	lifetime time.Duration
}

func (s store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	found, err := s.Storage.GetClientByClientID(ctx, id)
	return client{found, s.lifetime}, err
}

func (c client) IDTokenLifetime() time.Duration { return c.lifetime }

// users finds people by their names as well, because that is all that the storage knows about a login with a device
// code.
type users struct{ storage.UserStore }

func (u users) GetUserByID(id string) *storage.User {
	if found := u.UserStore.GetUserByID(id); found != nil {
		return found
	}
	return u.GetUserByUsername(id)
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where it listens")
	certificate := flag.String("certificate", "", "certificate chain, as a PEM file")
	key := flag.String("key", "", "key of the certificate, as a PEM file")
	lifetime := flag.Duration("lifetime", time.Hour, "lifetime of ID tokens")
	flag.Parse()

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	issuer := "https://" + listener.Addr().String()
	// A public client that returns to any port of localhost, one with a secret, and one for devices.
	storage.RegisterClients(
		storage.NativeClient("kubectl", "http://localhost"),
		storage.WebClient("web", "secret", "http://localhost:8000"),
		storage.DeviceClient("device", "secret"),
	)
	people := users{storage.NewUserStore("https://localhost:0")}
	handler := exampleop.SetupServer(issuer, store{storage.NewStorage(people), *lifetime}, slog.Default(), false)
	fmt.Println(issuer)
	// It ends with the test that started it.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.ServeTLS(listener, handler, *certificate, *key))
}
