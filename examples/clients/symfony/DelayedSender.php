<?php

use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Transport\Sender\SenderInterface;

/** Sends a DelayStamp as the header x-delay. Without it Messenger makes a queue for each delay. */
final class DelayedSender implements SenderInterface
{
    public function __construct(private SenderInterface $sender)
    {
    }

    public function send(Envelope $envelope): Envelope
    {
        $delay = $envelope->last(DelayStamp::class)?->getDelay() ?? 0;
        if ($delay > 0) {
            $stamp = $envelope->last(AmqpStamp::class);
            $headers = ['x-delay' => $delay] + ($stamp?->getAttributes()['headers'] ?? []);
            $envelope = $envelope->withoutAll(DelayStamp::class)->withoutAll(AmqpStamp::class)
                ->with(AmqpStamp::createWithAttributes(['headers' => $headers], $stamp));
        }

        return $this->sender->send($envelope);
    }
}
