# The command delayer, alone in an image: no shell, no package, no root.
#
#   docker build --tag delayer .
#   docker run --env DELAYER_URL=amqp://… delayer                 # turns the wheel
#   docker run --env DELAYER_URL=amqp://… delayer send --help     # any other command
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOARCH=$TARGETARCH go build -trimpath -ldflags='-s -w' -o /delayer ./cmd/delayer

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /delayer /
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s CMD ["/delayer", "health"]
ENTRYPOINT ["/delayer"]
CMD ["serve", "--listen", ":8080"]
