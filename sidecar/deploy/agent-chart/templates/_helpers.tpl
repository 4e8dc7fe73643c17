{{/* Labels of all objects and of the pods. */}}
{{- define "mc-agent.labels" -}}
app.kubernetes.io/name: mc-agent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
app.kubernetes.io/part-of: kubectl-mc
{{- end }}

{{/* Renders an object with the recommended labels; argument (list OBJECT ROOT). */}}
{{- define "mc-agent.object" -}}
{{- $object := index . 0 }}
{{- $root := index . 1 }}
{{- $labels := include "mc-agent.labels" $root | fromYaml }}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) }}
{{- $_ := set $object.metadata "labels" $labels }}
---
{{ toYaml $object }}
{{ end }}

{{- define "mc-agent.image" -}}
{{- $repository := required "image.repository is required: an image of mc-sidecar" .Values.image.repository }}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Renders the Deployment with the values, as `kubectl mc join --agent` does; argument (list DEPLOYMENT ROOT). */}}
{{- define "mc-agent.deployment" -}}
{{- $deployment := index . 0 }}
{{- $root := index . 1 }}
{{- $values := $root.Values }}
{{- $template := $deployment.spec.template }}
{{- $pod := $template.spec }}
{{- $container := index $pod.containers 0 }}
{{- $_ := set $deployment.spec "replicas" (int $values.replicas) }}
{{- $labels := include "mc-agent.labels" $root | fromYaml }}
{{- $_ := set $template.metadata "labels" (merge $labels $values.podLabels) }}
{{- with $values.podAnnotations }}
{{- $_ := set $template.metadata "annotations" . }}
{{- end }}
{{- range $field := list "imagePullSecrets" "nodeSelector" "affinity" "tolerations" "priorityClassName" }}
{{- with index $values $field }}
{{- $_ := set $pod $field . }}
{{- end }}
{{- end }}
{{- $_ := set $container "image" (include "mc-agent.image" $root) }}
{{- with $values.image.pullPolicy }}
{{- $_ := set $container "imagePullPolicy" . }}
{{- end }}
{{- $cluster := required "cluster is required: the name of this cluster on the host" $values.cluster }}
{{- $args := list "agent" (printf "--cluster=%s" $cluster) "--connection-dir=/etc/mc-agent" }}
{{- $args = append $args (printf "--token-secret=%s/mc-agent" $root.Release.Namespace) }}
{{- $args = append $args (printf "--target=%s" $values.target) }}
{{- $args = append $args "--admin-bind-address=0.0.0.0:8080" }}
{{- $_ := set $container "args" (concat $args $values.extraArgs) }}
{{- with $values.extraEnv }}
{{- $_ := set $container "env" . }}
{{- end }}
{{- $_ := set $container "resources" $values.resources }}
{{ toYaml $deployment }}
{{- end }}
