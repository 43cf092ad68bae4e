<?php

namespace App\Queue;

use VladimirYuldashev\LaravelQueueRabbitMQ\Queue\RabbitMQQueue;

/** Waits by the header x-delay. RabbitMQQueue makes a queue for each delay. */
class DelayedQueue extends RabbitMQQueue
{
    public function laterRaw($delay, string $payload, $queue = null, int $attempts = 0): int|string|null
    {
        $options = ['delay' => $delay, 'attempts' => $attempts];
        $milliseconds = $this->secondsUntil($delay) * 1000;
        if ($milliseconds <= 0) {
            return $this->pushRaw($payload, $queue, $options);
        }
        [$key, $exchange, $type] = $this->publishProperties($queue, $options);
        $this->declareDestination($key, $exchange, $type);
        [$message, $id] = $this->createMessage($payload, $attempts);
        $message->get('application_headers')->set('x-delay', $milliseconds);
        $this->publishBasic($message, 'later', $key);

        return $id;
    }
}
