{{- /* The labels of a pool's pods: with a second pool those of its role, too. A Deployment's selector never changes: who adds or takes away the
second pool deletes the Deployment weir first. */ -}}
{{- define "weir.labels" -}}
{app.kubernetes.io/name: weir{{ with .role }}, llm-d.ai/role: {{ . }}{{ end }}}
{{- end }}
{{- /* A pool's settings. */ -}}
{{- define "weir.config" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  labels: {{ include "weir.labels" . }}
data:
  weir.yml: |
    server:
      host: 0.0.0.0
      api_metrics: true # GET /metrics on the API's port
      open_metrics: true # without a key, as endpoint pickers ask (pool.yaml); the network policy below says who reaches the port
      # Operators' listener on the pod's address: the router reads block events and load there, with the API key.
      admin_address: 0.0.0.0:9090
      # Longer than nearly every answer takes, and shorter than terminationGracePeriodSeconds.
      shutdown_timeout: 120s
    model:
      path: {{ .all.model.path }}
      served_model_name: [{{ .all.model.name }}]
{{- with .of.config }}
{{ . | trim | indent 4 }}
{{- end }}
{{- end }}
{{- /* A pool's Deployment. */ -}}
{{- define "weir.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  labels: {{ include "weir.labels" . }}
spec:
  {{- with .count }}
  replicas: {{ . }}
  {{- end }}
  selector:
    matchLabels: {{ include "weir.labels" . }}
  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  minReadySeconds: 10
  template:
    metadata:
      labels: {{ include "weir.labels" . }}
    spec:
      # Drain: out of the Service (preStop), then running streams end (shutdown_timeout).
      terminationGracePeriodSeconds: 150
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{ include "weir.labels" . }}
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{ include "weir.labels" . }}
      containers:
        - name: weir
          image: {{ .all.image | quote }}
          args: [serve, --config, /etc/weir/weir.yml]
          env:
            - name: WEIR_API_KEY
              valueFrom: {secretKeyRef: {name: {{ .all.secret }}, key: api-key}}
            # Replicas with the same key hash blocks alike, so that a router can tell what each has cached.
            - name: WEIR_PREFIX_CACHE_KEY
              valueFrom: {secretKeyRef: {name: {{ .all.secret }}, key: prefix-cache-key}}
            # The router says with it which tenant it asks for.
            - name: WEIR_PEER_KEY
              valueFrom: {secretKeyRef: {name: {{ .all.secret }}, key: peer-key}}
            {{- with .all.region }}
            - {name: WEIR_REGION, value: {{ . | quote }}}
            {{- end }}
          ports:
            - {name: http, containerPort: 8000}
            - {name: admin, containerPort: 9090}
          # Requests equal limits and the CPUs are whole: with the kubelet's static CPU manager the
          # compute threads have cores of their own. The memory holds weights, KV cache and some 200 MiB.
          resources:
            requests: {cpu: {{ .of.cpu | quote }}, memory: {{ .of.memory }}}
            limits: {cpu: {{ .of.cpu | quote }}, memory: {{ .of.memory }}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          startupProbe: # loading reads gigabytes: up to 20 minutes
            httpGet: {path: /ready, port: http}
            periodSeconds: 5
            failureThreshold: 240
          readinessProbe:
            httpGet: {path: /ready, port: http}
            periodSeconds: 2
            failureThreshold: 1
          livenessProbe:
            httpGet: {path: /health, port: http}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          lifecycle:
            preStop:
              sleep: {seconds: 5} # until every router and proxy knows that this replica goes
          volumeMounts:
            - {name: config, mountPath: /etc/weir, readOnly: true}
            - {name: models, mountPath: /models, readOnly: true}
            - {name: state, mountPath: /tmp}
      volumes:
        - name: config
          configMap: {name: {{ .name }}}
        - name: models
          persistentVolumeClaim: {claimName: {{ .all.model.claim }}, readOnly: true}
        - name: state
          emptyDir: {}
{{- end }}
{{- /* The name that a pool's router resolves. */ -}}
{{- define "weir.names" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  labels: {{ include "weir.labels" . }}
spec:
  clusterIP: None
  selector: {{ include "weir.labels" . }}
  ports:
    - {name: http, port: 8000, targetPort: http}
{{- end }}
{{- define "weir.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels: {{ include "weir.labels" . }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{ include "weir.labels" . }}
{{- end }}
